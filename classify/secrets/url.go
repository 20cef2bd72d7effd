package secrets

import "strings"

// hiddenPart is the replacement for a secret part of a URL.
const hiddenPart = "xxxxx"

// URL returns one or more comma-separated addresses with secrets replaced by xxxxx. It hides passwords. It also hides a
// user without a password, which is a token for NATS. The addresses need not be valid URLs.
func URL(addresses string) string {
	parts := strings.Split(addresses, ",")
	for i, part := range parts {
		parts[i] = hideUser(part)
	}
	return strings.Join(parts, ",")
}

func hideUser(address string) string {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		scheme, rest = "", address
	} else {
		scheme += "://"
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return scheme + hideTail(rest)
	}
	if user, _, found := strings.Cut(rest[:at], ":"); found {
		return scheme + user + ":" + hiddenPart + rest[at:]
	}
	return scheme + hiddenPart + rest[at:]
}

// hideTail hides the port of an address if it is not a number. Such a port may be part of a password that contains a
// comma.
func hideTail(address string) string {
	host, path, slash := strings.Cut(address, "/")
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.HasSuffix(host, "]") || strings.Trim(host[colon+1:], "0123456789") == "" {
		return address
	}
	shown := host[:colon+1] + hiddenPart
	if slash {
		shown += "/" + path
	}
	return shown
}
