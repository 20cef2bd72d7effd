package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// errNotPublic is the error of a refused connection.
var errNotPublic = errors.New("the address is not public")

// guard decides which addresses the client may connect to.
type guard struct {
	prefixes []netip.Prefix
	hosts    map[string]bool
	public   *ssrf.Guardian
}

func newGuard(cfg Config) *guard {
	g := &guard{prefixes: cfg.Prefixes, hosts: map[string]bool{}}
	for _, host := range cfg.Hosts {
		g.hosts[strings.ToLower(host)] = true
	}
	g.public = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(cloudPrefixes()...))
	return g
}

// cloudPrefixes returns the public addresses that cloud providers use for instance metadata services.
func cloudPrefixes() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{168, 63, 129, 16}), 32)} // Azure
}

// lists reports whether the operator listed the host, with or without the port.
func (g *guard) lists(host, port string) bool {
	host = strings.ToLower(host)
	return g.hosts[host] || g.hosts[net.JoinHostPort(host, port)]
}

// check returns an error that wraps errNotPublic unless the client may connect to an address.
func (g *guard) check(to netip.AddrPort) error {
	addr := to.Addr().Unmap().WithZone("")
	if slices.ContainsFunc(g.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	if slices.Contains(blockedPorts(), to.Port()) {
		return fmt.Errorf("%w: port %d belongs to another protocol", errNotPublic, to.Port())
	}
	if err := g.public.SafeAddr(addr); err != nil {
		return fmt.Errorf("%w: %w", errNotPublic, err)
	}
	return nil
}

// control is the Control function of the dialer: it checks each address before connecting.
func (g *guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return fmt.Errorf("%w: %s %s", errNotPublic, network, address)
	}
	return g.check(to)
}

// dial connects to address. It checks the resolved address unless the operator listed the host.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTime, Resolver: c.resolver}
	if !c.guard.lists(host, port) {
		d.ControlContext = c.guard.control
	}
	return d.DialContext(ctx, network, address)
}

// blockedPorts returns the ports of other protocols, to which no request must be sent. They are the "bad ports" of the
// Fetch standard, so every port that a browser accepts is accepted here, too.
func blockedPorts() []uint16 {
	return []uint16{
		0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
		103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512,
		513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719,
		1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697,
		10080,
	}
}
