package server_test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// deaf repeats a request over one connection without reading answers, until the server stops reading.
func (w *web) deaf(body string) {
	w.t.Helper()
	at, err := url.Parse(w.url)
	require.NoError(w.t, err)
	conn, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", at.Host)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	request := strings.Repeat(fmt.Sprintf("POST / HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", at.Host, w.token, w.session, len(body), body), 64)
	for err == nil {
		require.NoError(w.t, conn.SetWriteDeadline(time.Now().Add(3*time.Second)))
		_, err = conn.Write([]byte(request))
	}
	require.ErrorIs(w.t, err, os.ErrDeadlineExceeded)
}

// A client that sends many small requests and reads no answer delays no other.
func TestADeafClientStopsNobody(t *testing.T) {
	t.Parallel()
	ada, eve := two(t)
	eve.open()
	call := `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("x", 20<<10) + `"},"task":{}}}`
	id := regexp.MustCompile("TASK_[0-9A-Z]{26}").FindString(eve.post(call).body)
	require.NotEmpty(t, id)
	eve.deaf(`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"orch://task/` + id + `"}}`)
	answered := make(chan int, 2)
	for _, body := range []string{`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":6,"method":"resources/read","params":{"uri":"orch://task/` + id + `"}}`} {
		go func() {
			resp, err := http.DefaultClient.Do(ada.request(http.MethodPost, body))
			if err == nil {
				_ = resp.Body.Close()
				answered <- resp.StatusCode
			}
		}()
	}
	for range 2 {
		select {
		case status := <-answered:
			assert.Equal(t, http.StatusOK, status)
		case <-time.After(10 * time.Second):
			require.Fail(t, "another client waits")
		}
	}
}
