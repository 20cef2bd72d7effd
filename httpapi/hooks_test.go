package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/receiver"
)

// hookSite serves hooks whose deliveries a function handles.
func hookSite(t *testing.T, receive func(context.Context, receiver.Delivery) (receiver.Answer, error)) *httptest.Server {
	t.Helper()
	site := httptest.NewServer(httpapi.Hooks(httpapi.HooksConfig{
		Receive: receive, Operator: func(_ context.Context, token string) bool { return token == "operator" },
	}))
	t.Cleanup(site.Close)
	return site
}

// send sends a delivery and returns the status and the text of the answer.
func send(t *testing.T, site *httptest.Server, body io.Reader) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site.URL+"/hooks/deploy", body)
	require.NoError(t, err)
	r.Header["X-Twice"] = []string{"a", "b"}
	r.Header.Set("Authorization", "Bearer operator")
	got, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return got.StatusCode, string(text), got.Header
}

func TestHooksPassOnDeliveries(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", receiver.MaxBody)
	site := hookSite(t, func(_ context.Context, d receiver.Delivery) (receiver.Answer, error) {
		assert.Equal(t, "deploy", d.Name)
		assert.Equal(t, "a, b", d.Headers["x-twice"])
		assert.True(t, d.Operator())
		assert.Equal(t, len(body), len(d.Body)) //nolint:testifylint // not a megabyte in a message
		return receiver.Answer{Result: hooks.Accepted, Delivery: "1", Task: "TASK_1"}, nil
	})
	for _, reader := range []io.Reader{strings.NewReader(body), io.MultiReader(strings.NewReader(body))} { // with and without a length
		status, text, h := send(t, site, reader)
		assert.Equal(t, http.StatusAccepted, status)
		assert.JSONEq(t, `{"result":"accepted","delivery":"1","task":"TASK_1"}`, text)
		assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	}
	for _, reader := range []io.Reader{strings.NewReader(body + "x"), io.MultiReader(strings.NewReader(body + "x"))} {
		status, text, _ := send(t, site, reader)
		assert.Equal(t, http.StatusRequestEntityTooLarge, status)
		assert.Contains(t, text, "SIZE_LIMIT_EXCEEDED")
	}
}

// The sender learns what to do next, and nothing of the node.
func TestHooksAnswerErrors(t *testing.T) {
	t.Parallel()
	var next error
	site := hookSite(t, func(context.Context, receiver.Delivery) (receiver.Answer, error) { return receiver.Answer{}, next })
	for _, tc := range []struct {
		err         error
		status      int
		retry, text string
	}{
		{fault.New(fault.Unauthorized, "no"), http.StatusUnauthorized, "", "UNAUTHORIZED"},
		{fault.New(fault.RateLimited, "too many").WithRetryAt(time.Now().Add(2500 * time.Millisecond)), http.StatusTooManyRequests, "3", "RATE_LIMITED"},
		{fault.New(fault.ValidationError, "no").WithReason(receiver.ReasonRefused), http.StatusUnprocessableEntity, "", "DELIVERY_REFUSED"},
		{fault.New(fault.Unavailable, "paused").WithReason(receiver.ReasonPaused).WithRetryAt(time.Now().Add(time.Hour)), http.StatusServiceUnavailable, "3600", "HOOK_PAUSED"},
		{fault.New(fault.DiskFull, "the disk /var/lib is full"), http.StatusServiceUnavailable, "1", "send it again"},
		{errors.New("a secret of the node"), http.StatusServiceUnavailable, "1", "UNAVAILABLE"},
	} {
		next = tc.err
		status, text, h := send(t, site, strings.NewReader("{}"))
		assert.Equal(t, tc.status, status)
		assert.Equal(t, tc.retry, h.Get("Retry-After"), text)
		assert.Contains(t, text, tc.text)
		assert.NotContains(t, text, "/var/lib")
		assert.NotContains(t, text, "secret of")
	}
}

func TestHooksAnswerAChallenge(t *testing.T) {
	t.Parallel()
	site := hookSite(t, func(context.Context, receiver.Delivery) (receiver.Answer, error) {
		return receiver.Answer{Result: hooks.Filtered, Challenge: "3eZbrw1a"}, nil
	})
	status, text, _ := send(t, site, strings.NewReader("{}"))
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, `{"challenge":"3eZbrw1a"}`, text)
}

// Senders that are slow on purpose keep nobody out.
func TestSlowSendersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	site := hookSite(t, func(context.Context, receiver.Delivery) (receiver.Answer, error) {
		return receiver.Answer{Result: hooks.Accepted}, nil
	})
	for range 200 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", site.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST /hooks/deploy HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", receiver.MaxBody)
		require.NoError(t, err)
		line, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 100 Continue\r\n", line, "its body is being read")
	}
	status, _, _ := send(t, site, strings.NewReader("{}"))
	assert.Equal(t, http.StatusAccepted, status)
}

// More deliveries at once than are handled at once wait, and all are handled.
func TestDeliveriesWaitForEachOther(t *testing.T) {
	t.Parallel()
	const all = 50
	var mu sync.Mutex
	running, most := 0, 0
	full := make(chan struct{})
	reached := sync.OnceFunc(func() { close(full) })
	site := hookSite(t, func(context.Context, receiver.Delivery) (receiver.Answer, error) {
		mu.Lock()
		running++
		if most = max(most, running); running == 32 {
			reached()
		}
		mu.Unlock()
		<-full
		mu.Lock()
		defer mu.Unlock()
		running--
		return receiver.Answer{Result: hooks.Accepted}, nil
	})
	var group sync.WaitGroup
	for range all {
		group.Go(func() {
			status, _, _ := send(t, site, strings.NewReader("{}"))
			assert.Equal(t, http.StatusAccepted, status)
		})
	}
	group.Wait()
	assert.Equal(t, 32, most)
}

// Slack takes an empty answer with 200, and would show any other to its users.
func TestSilentAnswer(t *testing.T) {
	t.Parallel()
	site := hookSite(t, func(context.Context, receiver.Delivery) (receiver.Answer, error) {
		return receiver.Answer{Result: hooks.Accepted, Delivery: "1", Task: "TASK_1", Silent: true}, nil
	})
	status, text, _ := send(t, site, strings.NewReader("{}"))
	assert.Equal(t, http.StatusOK, status)
	assert.Empty(t, text)
}
