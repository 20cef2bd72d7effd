package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/httplimit"
)

// pipes is an in-memory listener, for the simulated time of a synctest bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

// Accept implements net.Listener.
func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p pipes) Close() error { close(p.done); return nil }

// Addr implements net.Listener.
func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial serves a handler under the default limits, and connects to it.
func dial(t *testing.T, h http.HandlerFunc) net.Conn {
	t.Helper()
	listener := pipes{make(chan net.Conn), make(chan struct{})}
	web := httplimit.NewServer(h, httplimit.Limits{})
	go func() { _ = web.Serve(listener) }()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close(); assert.NoError(t, web.Close()) })
	listener.conns <- there
	return here
}

func readAll(w http.ResponseWriter, r *http.Request) {
	if _, err := io.ReadAll(r.Body); err != nil {
		http.Error(w, "slow", http.StatusBadRequest)
	}
}

func refuse(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who?", http.StatusUnauthorized) }

func TestSlowClientsAreCut(t *testing.T) {
	t.Parallel()
	const head = "POST / HTTP/1.1\r\nHost: x\r\n"
	for name, test := range map[string]struct {
		h          http.HandlerFunc
		send, want string
		within     time.Duration
	}{
		"half a header":                  {readAll, head, "", httplimit.DefaultHeader},
		"half a body":                    {readAll, head + "Content-Length: 10\r\n\r\nhalf", "400 Bad Request", httplimit.DefaultBody},
		"half a chunk":                   {readAll, head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhal", "400 Bad Request", httplimit.DefaultBody},
		"a body that nobody reads":       {refuse, head + "Content-Length: 10\r\n\r\nhalf", "401 Unauthorized", time.Second},
		"a large body that nobody reads": {refuse, head + "Content-Length: 1000000\r\n\r\nhalf", "401 Unauthorized", time.Second},
		"a body that is not sent":        {readAll, head + "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n", "400 Bad Request", httplimit.DefaultBody},
		"no second request":              {readAll, head + "Content-Length: 4\r\n\r\nhalf", "200 OK", httplimit.DefaultIdle},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn, begin := dial(t, test.h), time.Now()
				_, err := io.WriteString(conn, test.send)
				require.NoError(t, err)
				text, err := io.ReadAll(conn)
				require.NoError(t, err)
				assert.Contains(t, string(text), test.want)
				assert.LessOrEqual(t, time.Since(begin), test.within)
			})
		})
	}
}

// An answer may take longer than all limits together, and a stream lasts while its client reads.
func TestPatientClientsStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			for i := range 2 {
				<-time.After(time.Hour) // of the bubble
				assert.NoError(t, r.Context().Err())
				_, _ = fmt.Fprintln(w, i)
				assert.NoError(t, http.NewResponseController(w).Flush())
			}
		})
		answers := bufio.NewReader(conn)
		for _, request := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"} {
			_, err := io.WriteString(conn, request)
			require.NoError(t, err)
			resp, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, "0\n1\n", string(text))
			require.NoError(t, resp.Body.Close())
		}
	})
}

// Requests that a proxy could interpret differently are refused, and bodies that no handler reads.
func TestUnclearRequestsAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header http.Header
		status int
	}{
		"one credential":  {http.Header{"Authorization": {"Bearer a"}}, http.StatusOK},
		"two credentials": {http.Header{"Authorization": {"Bearer a", "Bearer b"}}, http.StatusBadRequest},
		"a packed body":   {http.Header{"Content-Encoding": {"gzip"}}, http.StatusUnsupportedMediaType},
		"a plain body":    {http.Header{"Content-Encoding": {"identity"}}, http.StatusOK},
	} {
		reached := false
		h := httplimit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }), httplimit.Limits{})
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
		r.Header = tc.header
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, tc.status, w.Code, name)
		assert.Equal(t, tc.status == http.StatusOK, reached, name)
	}
}

// A client that does not read an answer loses the connection soon, and one that reads a little now and then does so later.
func TestClientsThatDoNotReadAreCut(t *testing.T) {
	t.Parallel()
	whole := func(w http.ResponseWriter, text string) (err error) { _, err = io.WriteString(w, text); return err }
	inParts := func(w http.ResponseWriter, text string) (err error) {
		_, err = io.Copy(w, struct{ io.Reader }{strings.NewReader(text)})
		return err
	}
	const little, late = httplimit.DefaultWrite - time.Second, 2*httplimit.DefaultWrite + 16*time.Second
	for name, test := range map[string]struct {
		write         func(w http.ResponseWriter, text string) error
		every, within time.Duration
	}{
		"never":                {whole, 0, httplimit.DefaultWrite},
		"a little":             {whole, little, late},
		"nothing of the parts": {inParts, 0, httplimit.DefaultWrite},
		"a little of them":     {inParts, little, late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				took := make(chan time.Duration)
				conn := dial(t, func(w http.ResponseWriter, _ *http.Request) {
					begin := time.Now()
					assert.Error(t, test.write(w, strings.Repeat("x", 1<<20)))
					took <- time.Since(begin)
				})
				_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				require.NoError(t, err)
				var reading sync.WaitGroup
				defer reading.Wait()
				reading.Go(func() {
					for part := make([]byte, 64<<10); test.every > 0 && err == nil; <-time.After(test.every) {
						_, err = io.ReadFull(conn, part)
					}
				})
				assert.LessOrEqual(t, <-took, test.within)
			})
		})
	}
}

// A client that still sends its large body finds the answer, and then the end of the connection, not a reset.
func TestRefusedBodiesAreAnswered(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(nil)
	web.Config = httplimit.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<10)); err != nil {
			http.Error(w, "large", http.StatusRequestEntityTooLarge)
		}
	}), httplimit.Limits{})
	web.Start()
	defer web.Close()
	for name, header := range map[string]string{"a length": "Content-Length: 1048576\r\n\r\n", "chunks": "Transfer-Encoding: chunked\r\n\r\n100000\r\n"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+header+strings.Repeat("x", 512<<10))
		require.NoError(t, err, name)
		all, err := io.ReadAll(conn)
		require.NoError(t, err, name)
		assert.Contains(t, string(all), "413 Request Entity Too Large", name)
		require.NoError(t, conn.Close())
	}
}
