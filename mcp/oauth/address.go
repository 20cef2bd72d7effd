package oauth

import (
	"net"
	"net/url"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
)

// maxAddress is the most bytes of a URL from a server.
const maxAddress = 2048

// parseTrusted parses a URL to which secrets, or a person, may be sent: https, or, with local, also http on a loopback address. It
// returns FORBIDDEN for any other URL.
func parseTrusted(address string, local bool) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Host == "", len(address) > maxAddress:
		return nil, fault.New(fault.Forbidden, "it is not a valid address: %q", clip(address))
	case u.Fragment != "" || u.User != nil:
		return nil, fault.New(fault.Forbidden, "it has a fragment or a user: %q", clip(address))
	case mayBeLocal(u) && !local:
		return nil, fault.New(fault.Forbidden, "it leads to this machine, and the server is elsewhere: %q", clip(address))
	case u.Scheme == "https", u.Scheme == "http" && loopback(u):
		return u, nil
	}
	return nil, fault.New(fault.Forbidden, "it is not https: %q", clip(address))
}

// loopback reports whether a URL definitely leads to this machine.
func loopback(u *url.URL) bool {
	return netguard.IsLoopback(u.Hostname())
}

// mayBeLocal reports whether a URL may lead to this machine.
func mayBeLocal(u *url.URL) bool {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return loopback(u) || host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsUnspecified()
}

// clip truncates a text from a server, for an error message.
func clip(text string) string { return fault.Clip(text, 200) }

// resourceName returns the resource identifier of a server (RFC 8707): its URL without user, query and fragment, which may contain
// secrets.
func resourceName(u *url.URL) string {
	return (&url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}).String()
}

// covers reports whether a resource identifier is valid for a server: it has the same origin, and its path is the path of the server
// or a parent.
func covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.User != nil || r.RawQuery != "" || r.Fragment != "" || origin(r) != origin(server) {
		return false
	}
	prefix := strings.TrimSuffix(r.EscapedPath(), "/") + "/"
	return strings.HasPrefix(strings.TrimSuffix(server.EscapedPath(), "/")+"/", prefix)
}

// origin returns the scheme, host and port of a URL, in lower case.
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

// resourceAddresses returns the URLs at which the metadata of a server may be, in the order to try (RFC 9728).
func resourceAddresses(server *url.URL) []string {
	root := server.Scheme + "://" + server.Host + "/.well-known/oauth-protected-resource"
	if path := strings.Trim(server.EscapedPath(), "/"); path != "" {
		return []string{root + "/" + path, root}
	}
	return []string{root}
}

// issuerAddresses returns the URLs at which the metadata of an authorization server may be, in the order to try (RFC 8414, OpenID
// Connect Discovery).
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
