package netguard

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/orch-dev/orch/fault"
)

// maxURL bounds a URL, in bytes.
const maxURL = 8 << 10

// Parse parses an absolute http or https URL and normalizes it for Endpoint and the dialer: host in lower case and IDNA
// form, no final dot, no default port, no fragment. It refuses user names and passwords, and hosts that some programs
// interpret as a number. It returns INVALID_FORMAT, or FORBIDDEN for a literal address that is not public; the errors
// have no field.
func (c *Client) Parse(raw string) (*url.URL, error) {
	u, err := parse(raw)
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil || c.guard.lists(u.Hostname(), port(u)) {
		return u, nil //nolint:nilerr // not an address: the addresses of a name are checked when the client connects
	}
	number, err := strconv.ParseUint(port(u), 10, 16)
	if err != nil {
		return nil, invalid("the port must be a number from 1 to 65535")
	}
	if err := c.guard.check(netip.AddrPortFrom(addr, uint16(number))); err != nil {
		return nil, forbidden(err, Endpoint(u))
	}
	return u, nil
}

// Endpoint returns scheme://host:port of a URL that Parse returned.
func Endpoint(u *url.URL) string {
	return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port(u))
}

func parse(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, invalid("the URL is longer than 8192 bytes")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil: // err contains the URL, so it is dropped
		return nil, invalid("this is not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalid("the URL must begin with http:// or https://")
	case u.User != nil:
		return nil, invalid("the URL must not contain a user name or password").WithHint("send them in the header Authorization")
	}
	host, err := Host(u.Hostname())
	if err != nil {
		return nil, err
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, invalid("the port must be a number from 1 to 65535")
		}
	}
	u.Host = hostPort(host, u)
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// hostPort returns the host with the port of u, without a port if u has the default port of its scheme.
func hostPort(host string, u *url.URL) string {
	if p := strings.TrimLeft(u.Port(), "0"); p != "" && p != usualPort(u.Scheme) {
		return net.JoinHostPort(host, p)
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return usualPort(u.Scheme)
}

func usualPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// Host returns the normal form of a host: a literal address in its shortest form, or a name in ASCII, in lower case and
// without a final dot. It returns INVALID_FORMAT for anything else.
func Host(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", invalid("the address must not have a zone")
		}
		return addr.Unmap().String(), nil
	}
	if strings.ContainsAny(host, ":%") {
		return "", invalid("the host is neither a name nor an address")
	}
	name, err := asciiName(host)
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	switch {
	case err != nil || !plainName(name):
		return "", invalid("the host is neither a name nor an address")
	case endsInNumber(name):
		// IDNA may turn compatibility characters into an ordinary address: ①.1.1.1.
		if addr, err := netip.ParseAddr(name); err == nil {
			return addr.String(), nil
		}
		return "", invalid("the host is a number or ends in one").WithHint("write an IPv4 address as four decimal numbers")
	}
	return name, nil
}

// asciiName returns the ASCII form of a host. ASCII names are returned unchanged, because the rules of IDNA are too
// strict for some existing names.
func asciiName(host string) (string, error) {
	if strings.IndexFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return host, nil
	}
	return idna.Lookup.ToASCII(host)
}

// plainName reports whether a name consists of labels of 1 to 63 letters, digits, - and _.
func plainName(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// endsInNumber reports whether resolvers may interpret the name as an IPv4 address, such as 2130706433, 0x7f.1,
// 0177.0.0.1 or 127.1.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	return strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == ""
}

func invalid(message string) *fault.Error { return fault.New(fault.InvalidFormat, "%s", message) }

// IsLoopback reports whether a host, without a port, is a loopback address or the name localhost.
func IsLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
