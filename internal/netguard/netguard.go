// Package netguard confines outgoing HTTP, as package pathguard confines paths. Its client connects only to public
// addresses and to addresses that the operator lists (S0-114).
//
// The address is checked for every connection, including redirects, after the name was resolved. So neither a special
// spelling nor a changed DNS record can bypass the check. The client uses no proxy, keeps no cookies and no
// connections, and reads response bodies up to a limit. Errors never contain a URL, a header or a body, because each of
// them may contain a secret.
package netguard

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// dialTime bounds connecting, handshakeTime the TLS handshake.
	dialTime      = 15 * time.Second
	handshakeTime = 15 * time.Second
	// maxHeader bounds the response headers, in bytes.
	maxHeader = 64 << 10
)

// Config sets which hosts a client may connect to. The zero value allows only public addresses.
type Config struct {
	// Prefixes are address ranges that are allowed although they are not public.
	Prefixes []netip.Prefix
	// Hosts are names ("search.internal") or names with a port ("localhost:8888") that are allowed whatever their
	// addresses. The name is trusted together with its DNS records.
	Hosts []string
	// Resolver resolves names. Default: net.DefaultResolver.
	Resolver *net.Resolver
	// RootCAs are the certificate authorities. Default: those of the system.
	RootCAs *x509.CertPool
}

// Reaching returns a copy of c that also allows the host and port of a URL, such as the URL of a service in the
// operator's configuration. If raw is not an http or https URL, it returns c.
func (c Config) Reaching(raw string) Config {
	if u, err := parse(raw); err == nil {
		c.Hosts = append(slices.Clone(c.Hosts), net.JoinHostPort(u.Hostname(), port(u)))
	}
	return c
}

// Allow returns a copy of c that also allows an entry of the operator's configuration: a range of addresses
// ("10.0.0.0/8"), an address, a name, or an address or name with a port. It returns INVALID_FORMAT for anything else.
func (c Config) Allow(entry string) (Config, error) {
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		c.Prefixes = append(slices.Clone(c.Prefixes), prefix.Masked())
		return c, nil
	}
	if addr, err := netip.ParseAddr(entry); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		c.Prefixes = append(slices.Clone(c.Prefixes), netip.PrefixFrom(addr, addr.BitLen()))
		return c, nil
	}
	name, number, err := net.SplitHostPort(entry)
	if err != nil {
		host, err := Host(entry)
		c.Hosts = append(slices.Clone(c.Hosts), host)
		return c, err
	}
	host, err := Host(name)
	if n, bad := strconv.ParseUint(number, 10, 16); err == nil && (bad != nil || n == 0) {
		err = invalid("the port must be a number from 1 to 65535")
	}
	c.Hosts = append(slices.Clone(c.Hosts), net.JoinHostPort(host, number))
	return c, err
}

// Lists reports whether c lists a host: by its name, with or without the port, or as an address in a range.
func (c Config) Lists(host, port string) bool {
	host, err := Host(host)
	if err != nil {
		return false
	}
	if addr, err := netip.ParseAddr(host); err == nil && slices.ContainsFunc(c.Prefixes, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return true
	}
	return slices.ContainsFunc(c.Hosts, func(listed string) bool {
		return strings.EqualFold(listed, host) || strings.EqualFold(listed, net.JoinHostPort(host, port))
	})
}

// Client makes HTTP requests. It is safe for concurrent use and need not be closed.
type Client struct {
	guard     *guard
	resolver  *net.Resolver
	transport *http.Transport
}

// New returns a client.
func New(cfg Config) *Client {
	c := &Client{guard: newGuard(cfg), resolver: cfg.Resolver}
	c.transport = &http.Transport{
		DialContext:            c.dial,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout:    handshakeTime,
		TLSClientConfig:        &tls.Config{RootCAs: cfg.RootCAs, MinVersion: tls.VersionTLS12},
	}
	return c
}
