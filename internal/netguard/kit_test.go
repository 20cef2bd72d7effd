package netguard_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/orch-dev/orch/internal/netguard"
)

// TestMain sets a dead proxy in the environment: every test shows that it is ignored.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		if err := os.Setenv(name, "http://127.0.0.1:1"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// zone is a DNS zone. Each lookup of a name returns its next set of addresses; the last one is repeated.
type zone struct {
	mu    sync.Mutex
	sets  map[string][][]string
	asked map[string]int
}

// resolver starts a DNS server for the zone and returns a resolver that uses only this server.
func (z *zone) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	var done sync.WaitGroup
	done.Go(func() { z.serve(t, conn) })
	t.Cleanup(func() { assert.NoError(t, conn.Close()); done.Wait() })
	z.asked = map[string]int{}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (z *zone) serve(t *testing.T, conn net.PacketConn) {
	t.Helper()
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if assert.NoError(t, m.Unpack(buf[:n])) && assert.Len(t, m.Questions, 1) {
			reply, err := z.answer(m).Pack()
			if err == nil {
				_, err = conn.WriteTo(reply, from)
			}
			assert.NoError(t, err)
		}
	}
}

func (z *zone) answer(m dnsmessage.Message) *dnsmessage.Message {
	z.mu.Lock()
	defer z.mu.Unlock()
	q := m.Questions[0]
	r := &dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: m.Questions,
	}
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
	sets, ok := z.sets[name]
	if !ok {
		r.RCode = dnsmessage.RCodeNameError
		return r
	}
	head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
	for _, text := range sets[min(z.asked[name], len(sets)-1)] {
		addr := netip.MustParseAddr(text)
		switch {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			r.Answers = append(r.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			r.Answers = append(r.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	if q.Type == dnsmessage.TypeA {
		z.asked[name]++
	}
	return r
}

// inside is a server that must not be reached: on 127.0.0.1 and, if available, on ::1.
type inside struct {
	port string
	hits atomic.Int64
}

func newInside(t *testing.T) *inside {
	t.Helper()
	s := &inside{}
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.hits.Add(1) })
	srv := httptest.NewServer(count)
	t.Cleanup(srv.Close)
	s.port = parsed(t, srv.URL).Port()
	if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp6", "[::1]:"+s.port); err == nil {
		six := &httptest.Server{Listener: l, Config: &http.Server{Handler: count, ReadHeaderTimeout: time.Minute}}
		six.Start()
		t.Cleanup(six.Close)
	}
	return s
}

// open returns a configuration that allows 127.0.0.2, which represents public addresses in these tests.
func open() netguard.Config {
	return netguard.Config{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}
}

// serve starts a server on 127.0.0.2 and returns its URL.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	return serveAt(t, "127.0.0.2:0", h).URL
}

func serveAt(t *testing.T, address string, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(h)
	require.NoError(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func parsed(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return u
}

// get makes a request with the method GET that follows every redirect.
func get(t *testing.T, c *netguard.Client, raw string) (*netguard.Response, error) {
	t.Helper()
	u, err := c.Parse(raw)
	if err != nil {
		return nil, err
	}
	return c.Do(t.Context(), netguard.Request{Method: http.MethodGet, URL: u, Limit: 1 << 20, Follow: func(string) bool { return true }})
}

// reply writes the body of an answer.
func reply(t *testing.T, w io.Writer, format string, args ...any) {
	t.Helper()
	_, err := fmt.Fprintf(w, format, args...)
	assert.NoError(t, err)
}
