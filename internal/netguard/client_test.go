package netguard_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
)

func do(t *testing.T, cfg netguard.Config, raw string, r netguard.Request) (*netguard.Response, error) {
	t.Helper()
	c := netguard.New(cfg)
	var err error
	r.URL, err = c.Parse(raw)
	require.NoError(t, err)
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	if r.Limit == 0 {
		r.Limit = 1 << 20
	}
	return c.Do(t.Context(), r)
}

func TestRequest(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusTeapot)
		reply(t, w, "%s %s %s %s %s %s", r.Method, r.Host, r.URL, r.Header.Get("X-A"), r.UserAgent(), body)
	})
	res, err := do(t, open(), url+"/p?q=1#f", netguard.Request{Method: http.MethodPut, Header: http.Header{"X-A": {"b"}}, Body: "text"})
	require.NoError(t, err)
	assert.Equal(t, http.StatusTeapot, res.Status)
	assert.Equal(t, "PUT "+parsed(t, url).Host+" /p?q=1 b orch text", string(res.Body))
	assert.Equal(t, url+"/p?q=1", res.URL.String())
	assert.False(t, res.Truncated)
	assert.Empty(t, res.Refused)
}

// After a redirect to another endpoint no header with information about the caller is sent, even back to the first
// endpoint.
func TestHeadersStayAtTheFirstEndpoint(t *testing.T) {
	t.Parallel()
	var first, second string
	seen := map[string]http.Header{}
	record := func(w http.ResponseWriter, r *http.Request) {
		seen[r.Host+r.URL.Path] = r.Header.Clone()
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Set-Cookie", "session=1")
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
	}
	first, second = serve(t, record), serve(t, record)
	header := http.Header{
		"Authorization": {"Bearer s"}, "X-Api-Key": {"s"}, "Cookie": {"c=s"}, "X-Custom": {"s"}, "Idempotency-Key": {"k"},
		"Accept": {"text/plain"}, "Content-Type": {"text/x"},
	}
	res, err := do(t, open(), first+"/1?secret=s&to="+first+"/2?to="+second+"/3?to="+first+"/4", netguard.Request{
		Method: http.MethodPost, Header: header, Body: "b", Follow: func(string) bool { return true },
	})
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, res.Status)
	require.Len(t, seen, 4)
	host := parsed(t, first).Host
	for name, values := range header {
		assert.Equal(t, values, seen[host+"/2"][name], name)
	}
	for _, at := range []string{parsed(t, second).Host + "/3", host + "/4"} {
		for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "X-Custom", "Idempotency-Key", "Referer"} {
			assert.Empty(t, seen[at][name], "%s at %s", name, at)
		}
		assert.Equal(t, []string{"text/plain"}, seen[at]["Accept"])
	}
	assert.Empty(t, seen[host+"/2"]["Referer"])
	assert.Equal(t, []string{"c=s"}, seen[host+"/2"]["Cookie"], "cookies of a server are not kept")
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) { reply(t, w, "other") })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/other":
			http.Redirect(w, r, other, http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/userinfo":
			http.Redirect(w, r, strings.Replace(other, "//", "//a:hunter2@", 1), http.StatusFound)
		case "/nowhere":
			w.WriteHeader(http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/there", http.StatusSeeOther)
		default:
			reply(t, w, "%s", r.URL.Path)
		}
	})
	for path, refused := range map[string]string{
		"/loop":     "there were 10 redirects before it",
		"/other":    "it leads to " + other + ", which this call may not access",
		"/file":     "it does not lead to a plain http or https URL",
		"/userinfo": "it does not lead to a plain http or https URL",
	} {
		res, err := do(t, open(), url+path, netguard.Request{})
		require.NoError(t, err, path)
		assert.Equal(t, http.StatusFound, res.Status, path)
		assert.Equal(t, refused, res.Refused, path)
		assert.Equal(t, url+path, res.URL.String(), "the answer is that of the last server")
		assert.NotEmpty(t, res.Header.Get("Location"))
	}
	var asked []string
	res, err := do(t, open(), url+"/other", netguard.Request{Follow: func(e string) bool { asked = append(asked, e); return true }})
	require.NoError(t, err)
	assert.Equal(t, "other", string(res.Body))
	assert.Equal(t, []string{other}, asked)
	assert.Equal(t, other, netguard.Endpoint(res.URL))

	res, err = do(t, open(), url+"/here", netguard.Request{Method: http.MethodPost, Body: "x"})
	require.NoError(t, err)
	assert.Equal(t, "/there", string(res.Body), "the own endpoint is always open")
	res, err = do(t, open(), url+"/nowhere", netguard.Request{})
	require.NoError(t, err)
	assert.Equal(t, http.StatusFound, res.Status)
	assert.Empty(t, res.Refused)
}

func TestBodies(t *testing.T) {
	t.Parallel()
	zeros := make([]byte, 1<<20)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/huge":
			for {
				if _, err := w.Write(zeros); err != nil {
					return
				}
			}
		case "/bomb": // 64 MiB in 64 KiB
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 64 {
				if _, err := z.Write(zeros); err != nil {
					return
				}
			}
			assert.NoError(t, z.Close())
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, err := io.WriteString(z, "plain")
			assert.NoError(t, errors.Join(err, z.Close()))
		case "/exact":
			_, err := w.Write(zeros[:1000])
			assert.NoError(t, err)
		case "/one-more":
			_, err := w.Write(zeros[:1001])
			assert.NoError(t, err)
		}
	})
	for path, want := range map[string]struct {
		size int
		cut  bool
	}{"/huge": {1000, true}, "/bomb": {1000, true}, "/gzip": {5, false}, "/exact": {1000, false}, "/one-more": {1000, true}, "/empty": {0, false}} {
		res, err := do(t, open(), url+path, netguard.Request{Limit: 1000})
		require.NoError(t, err, path)
		assert.Len(t, res.Body, want.size, path)
		assert.Equal(t, want.cut, res.Truncated, path)
	}
}

// raw starts a server that answers every connection with the same bytes and closes it.
func raw(t *testing.T, answer string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		h, ok := w.(http.Hijacker)
		if !assert.True(t, ok) {
			return
		}
		conn, _, err := h.Hijack()
		if assert.NoError(t, err) {
			_, _ = io.WriteString(conn, answer) // a client that has seen enough closes early
			assert.NoError(t, conn.Close())
		}
	})
}

func TestBadServers(t *testing.T) {
	t.Parallel()
	var bad bytes.Buffer
	z := gzip.NewWriter(&bad)
	_, err := io.WriteString(z, strings.Repeat("secret", 100))
	require.NoError(t, errors.Join(err, z.Close()))
	for name, answer := range map[string]string{
		"nothing":         "",
		"no HTTP":         "hunter2 is the password\r\n\r\n",
		"half a header":   "HTTP/1.1 200 OK\r\nX: ",
		"bad chunk":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhunter2\r\n",
		"cut chunk":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhunter2",
		"endless chunk":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("f", 10_000),
		"two lengths":     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 7\r\n\r\nhunter2",
		"short body":      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhunter2",
		"negative length": "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhunter2",
		"many headers":    "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Y: hunter2\r\n", 100_000) + "\r\n",
		"broken gzip":     "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bad.String()[:bad.Len()-10],
		"no gzip":         "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nhunter2",
		"folded header":   "HTTP/1.1 200 OK\r\n : hunter2\r\n\r\n",
		"bad location":    "HTTP/1.1 302 Found\r\nLocation: http://[hunter2\r\nContent-Length: 0\r\n\r\n",
		"endless 100":     strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10_000),
	} {
		_, err := do(t, open(), raw(t, answer)+"/?q=hunter2", netguard.Request{Header: http.Header{"Authorization": {"hunter2"}}})
		e := fault.From(err)
		require.NotNil(t, e, name)
		assert.Equal(t, fault.NetworkError, e.Code, "%s: %v", name, err)
		assert.Equal(t, "CONNECTION_ERROR", e.Reason, name)
		assert.NotContains(t, e.Error()+e.Hint, "hunter2", name)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	z := &zone{sets: map[string][][]string{"empty.test": {{}}}}
	cfg := open()
	cfg.Resolver = z.resolver(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0")
	require.NoError(t, err)
	closed := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	for url, want := range map[string]string{
		closed:                             closed + " refused the connection",
		"http://none.test":                 "http://none.test:80 has a name that nobody knows",
		"http://empty.test/?token=hunter2": "http://empty.test:80 has a name that nobody knows",
		strings.Replace(serve(t, nil), "http://", "https://", 1): "does not speak TLS",
	} {
		_, err := do(t, cfg, url, netguard.Request{})
		assert.Equal(t, fault.NetworkError, fault.CodeOf(err), url)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			reply(t, w, "begin")
			assert.NoError(t, http.NewResponseController(w).Flush())
		}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) }) // before the server is closed
	c := netguard.New(open())
	for _, path := range []string{"/head", "/body"} {
		u, err := c.Parse(url + path)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = c.Do(ctx, netguard.Request{Method: http.MethodGet, URL: u, Limit: 100})
		cancel()
		assert.Equal(t, fault.Timeout, fault.CodeOf(err), "%s: %v", path, err)

		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		_, err = c.Do(ctx, netguard.Request{Method: http.MethodGet, URL: u, Limit: 100})
		assert.Equal(t, fault.Cancelled, fault.CodeOf(err), "%s: %v", path, err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reply(t, w, "safe") }))
	t.Cleanup(s.Close)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	z := &zone{sets: map[string][][]string{"example.com": {{"127.0.0.1"}}, "other.test": {{"127.0.0.1"}}}}
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	port := parsed(t, s.URL).Port()
	cfg := netguard.Config{Hosts: []string{"EXAMPLE.com", "other.test:" + port}, RootCAs: pool, Resolver: z.resolver(t)}

	res, err := do(t, cfg, "https://example.com:"+port, netguard.Request{})
	require.NoError(t, err)
	assert.Equal(t, "safe", string(res.Body))
	_, err = do(t, cfg, "https://other.test:"+port, netguard.Request{})
	require.ErrorContains(t, err, "has no certificate that can be trusted")
	cfg.RootCAs = x509.NewCertPool()
	_, err = do(t, cfg, "https://example.com:"+port, netguard.Request{})
	assert.ErrorContains(t, err, "has no certificate that can be trusted")
}

// A host is listed with its port, or with all of them.
func TestReaching(t *testing.T) {
	t.Parallel()
	in := newInside(t)
	other := newInside(t)
	cfg := netguard.Config{}.Reaching("http://127.0.0.1:" + in.port + "/base").Reaching("no URL").Reaching("http://[::1]")
	assert.Equal(t, []string{"127.0.0.1:" + in.port, "[::1]:80"}, cfg.Hosts)
	c := netguard.New(cfg)
	_, err := get(t, c, "http://127.0.0.1:"+in.port)
	require.NoError(t, err)
	_, err = get(t, c, "http://127.0.0.1:"+other.port)
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	_, err = c.Parse("http://[::1]")
	require.NoError(t, err)
	assert.Zero(t, other.hits.Load())
}

// Ports of other protocols are refused, unless the operator lists them.
func TestPorts(t *testing.T) {
	t.Parallel()
	c := netguard.New(netguard.Config{})
	for _, port := range []string{"22", "25", "53", "110", "143", "465", "587", "993", "2049", "6000", "6667"} {
		_, err := c.Parse("http://93.184.215.14:" + port)
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err), port)
	}
	_, err := netguard.New(netguard.Config{Hosts: []string{"93.184.215.14:25"}}).Parse("http://93.184.215.14:25")
	require.NoError(t, err)
}
