package secrets

import "strings"

// hiddenPart replaces the hidden parts of a URL.
const hiddenPart = "xxxxx"

// URL returns one or more comma-separated addresses without secrets: without passwords, and without a user without
// password, which is a token for NATS. The addresses need not be valid URLs.
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

// hideTail hides an invalid port, which may be part of a password that contains a comma.
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
