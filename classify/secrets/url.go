package secrets

import "strings"

// hiddenPart takes the place of what a URL does not show.
const hiddenPart = "xxxxx"

// URL returns addresses, several with commas, as they may be shown: without passwords, and without a user that stands
// alone, which is a token to NATS. The text need not be a valid URL.
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

// hideTail hides what stands where a port should, as half of an address does whose password has a comma in it.
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
