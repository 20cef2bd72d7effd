package bus_test

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy is a loopback TCP proxy that can lose answers and cut connections.
type proxy struct {
	listener net.Listener
	target   string
	deaf     atomic.Bool // answers of the server are dropped
	mu       sync.Mutex
	open     map[net.Conn]struct{}
	ended    sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, target: strings.TrimPrefix(target, "nats://"), open: map[net.Conn]struct{}{}}
	p.ended.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.ended.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.ended.Go(func() { p.forward(server, client, nil) })
		p.ended.Go(func() { p.forward(client, server, &p.deaf) })
	}
}

func (p *proxy) forward(to, from net.Conn, drop *atomic.Bool) {
	defer func() { _ = to.Close() }() // the other direction may have closed it
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && (drop == nil || !drop.Load()) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut closes all connections; new ones are accepted.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
	clear(p.open)
}
