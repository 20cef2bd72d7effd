// Package bustest starts embedded servers with open stores, for tests of packages that use package bus. Its Proxy interrupts
// connections to a server.
package bustest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
)

// Node is an embedded server with an open store.
type Node struct {
	*bus.Store
	Config      bus.ServerConfig
	StoreConfig bus.StoreConfig
	Server      *bus.Server
	Conn        *bus.Conn
	open        bool
}

// NewNode starts a server and opens its store. Both are closed when the test ends.
func NewNode(tb testing.TB, cfg bus.ServerConfig) *Node {
	tb.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = tb.TempDir()
	}
	n := &Node{Config: cfg}
	n.Start(tb)
	tb.Cleanup(func() { n.Stop(tb) })
	return n
}

// Start starts the server and opens the store.
func (n *Node) Start(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, n.Serve(tb))
	n.OpenStore(tb)
}

// Serve starts the server without opening the store.
func (n *Node) Serve(tb testing.TB) (err error) {
	tb.Helper()
	n.Server, err = bus.StartServer(tb.Context(), n.Config)
	return err
}

// OpenStore connects to the server and opens the store.
func (n *Node) OpenStore(tb testing.TB) {
	tb.Helper()
	var err error
	n.open = true
	n.Conn, err = n.Server.Connect(tb.Context())
	require.NoError(tb, err)
	n.Store, err = n.Conn.OpenStore(tb.Context(), n.StoreConfig)
	require.NoError(tb, err, "%v", errors.Unwrap(err))
}

// Stop closes the store and the server. It is idempotent.
func (n *Node) Stop(tb testing.TB) {
	tb.Helper()
	if !n.open {
		return
	}
	n.open = false
	ctx := context.WithoutCancel(tb.Context())
	require.NoError(tb, n.Close(ctx))
	n.Conn.Close()
	require.NoError(tb, n.Server.Close(ctx))
}

// Reopen closes the store and the server, and starts both again on the same directory.
func (n *Node) Reopen(t *testing.T) events.Log {
	t.Helper()
	n.Stop(t)
	n.Start(t)
	return n
}

// Proxy is a loopback TCP proxy that can drop answers and close connections.
type Proxy struct {
	listener net.Listener
	target   string
	Deaf     atomic.Bool  // while true, answers of the server are dropped
	Dropped  atomic.Int64 // how many answers were dropped, or parts of them
	Delay    atomic.Int64 // how long to hold back the answer that next fills a buffer, a time.Duration
	mu       sync.Mutex
	open     map[net.Conn]struct{}
	ended    sync.WaitGroup
}

// NewProxy starts a proxy of a server, and closes it when the test ends.
func NewProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{listener: l, target: strings.TrimPrefix(target, "nats://"), open: map[net.Conn]struct{}{}}
	p.ended.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.ended.Wait()
	})
	return p
}

// Address returns the URL of the proxy.
func (p *Proxy) Address() string { return "nats://" + p.listener.Addr().String() }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.ended.Go(func() { p.forward(server, client, func(bool) bool { return true }) })
		p.ended.Go(func() { p.forward(client, server, p.answer) })
	}
}

// answer reports whether the client gets an answer, or a part of it. It first holds back a part that fills the buffer.
func (p *Proxy) answer(full bool) bool {
	if full {
		<-time.After(time.Duration(p.Delay.Swap(0)))
	}
	if p.Deaf.Load() {
		p.Dropped.Add(1)
		return false
	}
	return true
}

// forward copies data from one connection to the other until either is closed. It discards the data for which pass returns
// false; full means that the data fills the buffer.
func (p *Proxy) forward(to, from net.Conn, pass func(full bool) bool) {
	defer func() { _ = to.Close() }() // the other direction may have closed it
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && pass(n == len(buf)) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Cut closes all connections. The proxy still accepts new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
	clear(p.open)
}

// Operator returns the option with which a plain NATS client uses the operator's credential of a data directory.
func Operator(tb testing.TB, dir string) nats.Option {
	tb.Helper()
	return nats.UserInfo(bus.OperatorUser, Passwords(tb, dir)[bus.OperatorUser])
}

// Passwords returns the passwords in a data directory, by user.
func Passwords(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "auth.json"))
	require.NoError(tb, err)
	var auth map[string]string
	require.NoError(tb, json.Unmarshal(data, &auth))
	return auth
}

// Dial connects to a node as a user until the test ends; an empty user is the operator.
func Dial(t *testing.T, n *Node, user string) *bus.Conn {
	t.Helper()
	c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: n.Config.DataDir, User: user})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// ConnectPlain connects without this package's options. Its timeout allows for a slow machine.
func ConnectPlain(url string, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append(opts, nats.Timeout(time.Minute))...)
}

// Issue creates a token and returns it with its secret.
func Issue(t *testing.T, store bus.TokenStore, in bus.NewToken) (bus.Token, string) {
	t.Helper()
	token, secret, err := bus.IssueToken(t.Context(), store, in)
	require.NoError(t, err)
	return token, secret
}
