package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/internal/httplimit"
)

// openAuthenticator accepts everybody as a client that receives the messages of a test.
type openAuthenticator struct{ messages chan []net.Buffers }

// Authenticate implements httpapi.Authenticator.
func (d openAuthenticator) Authenticate(context.Context, string) (httpapi.Client, error) {
	return guest{d, make(chan int)}, nil
}

// CheckOrigin implements httpapi.Authenticator.
func (openAuthenticator) CheckOrigin(next http.Handler) http.Handler { return next }

type guest struct {
	openAuthenticator

	left chan int
}

func (guest) Name() string { return "user:guest" }

// Admit implements httpapi.Client.
func (g guest) Admit(int64) (func(), error) { return func() { close(g.left) }, nil }

func (guest) Sees(string) bool { return true }

func (guest) Unseen(string, json.RawMessage) {}

func (guest) Nearest(string) string { return "" }

// Call implements httpapi.Client.
func (guest) Call(context.Context, httpapi.Call) (httpapi.Reply, error) {
	return httpapi.Reply{Output: json.RawMessage(`{"plain":true}`)}, nil
}

// Listens implements httpapi.Client.
func (guest) Listens(method string) bool { return method != "plain" }

// Listen implements httpapi.Client.
func (g guest) Listen(_ context.Context, c httpapi.Call) (httpapi.Reply, httpapi.Listener, error) {
	if c.Tool == "fails" {
		return httpapi.Reply{Task: "TASK_1"}, nil, fault.New(fault.Conflict, "no")
	}
	return httpapi.Reply{Output: json.RawMessage("{\n \"ok\": true\n}")}, g, nil
}

// Next implements httpapi.Listener.
func (g guest) Next(ctx context.Context) ([]net.Buffers, error) {
	<-g.left // a stream is no request that is being answered
	select {
	case m, open := <-g.messages:
		if !open {
			return nil, io.EOF
		}
		return m, nil
	case <-ctx.Done():
		return nil, nil
	}
}

// Close implements httpapi.Listener.
func (guest) Close() {}

func ask(t *testing.T, h http.Handler, method, accept string) *http.Response {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"`+method+`"}`))
	require.NoError(t, err)
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// The format of a stream: the answer, then the messages, one event each, and comments while there are none.
func TestStreamOfEvents(t *testing.T) {
	t.Parallel()
	d := openAuthenticator{make(chan []net.Buffers)}
	h, err := httpapi.New(httpapi.Config{Authenticator: d, KeepAlive: 10 * time.Millisecond})
	require.NoError(t, err)
	resp := ask(t, h, "sub", "text/event-stream") //nolint:bodyclose // ask closes it
	assert.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	var quiet int
	next := func() string {
		for lines.Scan() {
			switch line := lines.Text(); {
			case strings.HasPrefix(line, ":"):
				quiet++
			case line != "":
				require.Equal(t, "event: message", line)
				require.True(t, lines.Scan())
				data := lines.Text()
				require.True(t, lines.Scan())
				require.Empty(t, lines.Text(), "an empty line ends the event")
				return data
			}
			if quiet == 2 {
				quiet++
				return "quiet"
			}
		}
		return "end"
	}
	assert.Equal(t, `data: {"jsonrpc":"2.0","id":7,"result":{"ok":true}}`, next())
	assert.Equal(t, "quiet", next(), "comments keep the stream alive")
	d.messages <- []net.Buffers{{[]byte(`{"a":1}`)}, {[]byte(`{"a"`), []byte(`:2`), []byte("}")}}
	assert.Equal(t, `data: {"a":1}`, next())
	assert.Equal(t, `data: {"a":2}`, next())
	close(d.messages)
	assert.Equal(t, "end", next())
}

// Which requests get a stream, and which an answer.
func TestWhoGetsAStream(t *testing.T) {
	t.Parallel()
	d := openAuthenticator{make(chan []net.Buffers)}
	close(d.messages)
	h, err := httpapi.New(httpapi.Config{Authenticator: d})
	require.NoError(t, err)
	for _, c := range []struct{ method, accept, want string }{
		{"sub", "application/json, text/event-stream", "text/event-stream"},
		{"sub", "text/event-stream;q=0.5", "text/event-stream"},
		{"sub", "text/event-stream;q=0, */*", "application/json"},
		{"sub", "*/*", "application/json"},
		{"sub", "", "application/json"},
		{"plain", "text/event-stream", "application/json"},
		{"fails", "text/event-stream", "text/event-stream"},
	} {
		resp := ask(t, h, c.method, c.accept) //nolint:bodyclose // ask closes it
		assert.Equal(t, c.want, resp.Header.Get("Content-Type"), "%v", c)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		if c.method == "fails" {
			assert.Contains(t, string(body), `"code":-32201`)
			assert.Contains(t, string(body), `"task":"TASK_1"`)
		}
	}
}

// A client that does not read loses its stream: the writer does not wait forever.
func TestStuckClientLosesItsStream(t *testing.T) {
	t.Parallel()
	d := openAuthenticator{make(chan []net.Buffers)}
	h, err := httpapi.New(httpapi.Config{Authenticator: d})
	require.NoError(t, err)
	ended := make(chan struct{})
	web := httptest.NewServer(httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, r)
	}), httplimit.Limits{Write: 50 * time.Millisecond}))
	t.Cleanup(web.Close)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	const body = `{"jsonrpc":"2.0","id":7,"method":"sub"}`
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nContent-Length: 39\r\n\r\n"+body)
	require.NoError(t, err)
	large := net.Buffers{[]byte(`"`), []byte(strings.Repeat("x", 1<<20)), []byte(`"`)}
	for {
		select {
		case d.messages <- []net.Buffers{large}:
			continue
		case <-ended:
		case <-time.After(time.Minute):
			require.NoError(t, errors.New("the stream goes on"))
		}
		return
	}
}

// blind is a client that sees no method at first.
type blind struct {
	guest

	unseen, called *[]string
}

// Authenticate implements httpapi.Authenticator.
func (b blind) Authenticate(context.Context, string) (httpapi.Client, error) {
	b.left = make(chan int)
	return b, nil
}

func (blind) Listens(string) bool { return false }

func (blind) Sees(string) bool { return false }

func (b blind) Unseen(method string, _ json.RawMessage) { *b.unseen = append(*b.unseen, method) }

// Call implements httpapi.Client: the method is there by now.
func (b blind) Call(_ context.Context, c httpapi.Call) (httpapi.Reply, error) {
	*b.called = append(*b.called, c.Tool)
	return httpapi.Reply{Output: json.RawMessage(`{}`)}, nil
}

// What is answered with METHOD_NOT_FOUND is noted and not called, even if the method comes into being meanwhile.
func TestAMethodThatIsNotThereIsNotCalled(t *testing.T) {
	t.Parallel()
	b := blind{unseen: &[]string{}, called: &[]string{}}
	h, err := httpapi.New(httpapi.Config{Authenticator: b})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/rpc", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"late"}`)))
	assert.Contains(t, w.Body.String(), "METHOD_NOT_FOUND")
	assert.Equal(t, []string{"late"}, *b.unseen)
	assert.Empty(t, *b.called)
}
