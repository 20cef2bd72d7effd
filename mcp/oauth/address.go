package oauth

import (
	"net"
	"net/url"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// maxAddress is the most bytes of a URL from another party.
const maxAddress = 2048

// parseTrusted parses a URL that secrets, or a person, may be sent to: https, or http on this machine if local is set.
// FORBIDDEN for any other.
func parseTrusted(address string, local bool) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Host == "", len(address) > maxAddress:
		return nil, fault.New(fault.Forbidden, "it is no address: %q", clip(address))
	case u.Fragment != "" || u.User != nil:
		return nil, fault.New(fault.Forbidden, "it has a fragment or a user: %q", clip(address))
	case mayBeLocal(u) && !local:
		return nil, fault.New(fault.Forbidden, "it leads to this machine, and the server is elsewhere: %q", clip(address))
	case u.Scheme == "https", u.Scheme == "http" && loopback(u):
		return u, nil
	}
	return nil, fault.New(fault.Forbidden, "it is not https: %q", clip(address))
}

// loopback reports whether a URL certainly leads to this machine.
func loopback(u *url.URL) bool {
	return strings.EqualFold(u.Hostname(), "localhost") || net.ParseIP(u.Hostname()).IsLoopback()
}

// mayBeLocal reports whether a URL may lead to this machine.
func mayBeLocal(u *url.URL) bool {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return loopback(u) || host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsUnspecified()
}

// clip shortens a text from another party, for an error.
func clip(text string) string {
	const shown = 200
	if len(text) > shown {
		return text[:shown] + "…"
	}
	return text
}

// resourceName returns the name of a server as a resource: without user, query and fragment, which may contain secrets.
func resourceName(u *url.URL) string {
	return (&url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}).String()
}

// covers reports whether a resource is a server, or contains it on the same host.
func covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.User != nil || r.RawQuery != "" || r.Fragment != "" || origin(r) != origin(server) {
		return false
	}
	above := strings.TrimSuffix(r.EscapedPath(), "/") + "/"
	return strings.HasPrefix(strings.TrimSuffix(server.EscapedPath(), "/")+"/", above)
}

// origin returns scheme and host, with the port.
func origin(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch {
	case u.Port() != "":
	case u.Scheme == "https":
		host += ":443"
	case u.Scheme == "http":
		host += ":80"
	}
	return strings.ToLower(u.Scheme) + "://" + host
}

// resourceAddresses returns the URLs of the possible metadata of a server, the best first (RFC 9728).
func resourceAddresses(server *url.URL) []string {
	root := server.Scheme + "://" + server.Host + "/.well-known/oauth-protected-resource"
	if path := strings.Trim(server.EscapedPath(), "/"); path != "" {
		return []string{root + "/" + path, root}
	}
	return []string{root}
}

// issuerAddresses returns the URLs of the possible metadata of an authorization server, the best first (RFC 8414, OpenID Connect).
func issuerAddresses(issuer *url.URL) []string {
	path := strings.Trim(issuer.EscapedPath(), "/")
	root := issuer.Scheme + "://" + issuer.Host
	if path == "" {
		return []string{root + "/.well-known/oauth-authorization-server", root + "/.well-known/openid-configuration"}
	}
	return []string{
		root + "/.well-known/oauth-authorization-server/" + path,
		root + "/.well-known/openid-configuration/" + path,
		root + "/" + path + "/.well-known/openid-configuration",
	}
}
