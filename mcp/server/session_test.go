package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
)

// The state of a session is not removed while it is in use.
func TestSessionInUseIsKept(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	var hours atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(hours.Load()) * time.Hour) }
	w := n.web(t, n.face(func(c *server.Config) {
		c.HTTP.Tokens, c.Now, c.Limits.SessionTimeout = tokens{}, clock, 10*time.Second
	}))
	w.open()
	require.Equal(t, http.StatusOK, w.post(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}`).status)
	hours.Store(1)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for tidied := time.After(3 * time.Second); ; {
		a := w.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"steps"}}`)
		require.Contains(t, a.body, `"look out"`, "it still hears of log entries")
		select {
		case <-tidied:
			return
		case <-tick.C:
		}
	}
}

// A viewer changes nothing: it is not asked, and its answers are refused.
func TestViewerAnswersNothing(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	const able = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	a := w.modern("tools/call", "asks", `"name":"asks",`, able)
	result, _ := a.message["result"].(map[string]any)
	id, _ := result["taskId"].(string)
	require.NotEmpty(t, id, a.body)
	params := `"taskId":"` + id + `",`
	var question string
	require.Eventually(t, func() bool {
		_, after, found := strings.Cut(w.modern("tasks/get", id, params, able).body, `"inputRequests":{"`)
		question, _, _ = strings.Cut(after, `"`)
		return found && question != ""
	}, time.Minute, 10*time.Millisecond)
	eve := &web{t: t, url: w.url, token: "eve.viewer"}
	assert.Contains(t, eve.modern("tasks/get", id, params, able).body, `"inputRequests":{}`)
	answer := params + `"inputResponses":{"` + question + `":{"action":"accept","content":{"name":"Eve"}}},`
	eve.modern("tasks/update", id, answer, able)
	assert.Contains(t, w.modern("tasks/get", id, params, able).body, question, "it is still asked")
	assert.Nil(t, code(w.modern("tasks/update", id, answer, able)))
	require.Eventually(t, func() bool {
		return strings.Contains(w.modern("tasks/get", id, params, able).body, "hello Eve")
	}, time.Minute, 10*time.Millisecond)
}

// S2-064: the result of a task is that of the call, with all digits.
func TestResultsKeepTheirNumbers(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	const want = `"number":9007199254740993`
	w.open()
	assert.Contains(t, w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"large"}}`).body, want)
	a := w.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"large","task":{}}}`)
	result, _ := a.message["result"].(map[string]any)
	task, _ := result["task"].(map[string]any)
	id, _ := task["taskId"].(string)
	require.NotEmpty(t, id, a.body)
	assert.Contains(t, w.post(`{"jsonrpc":"2.0","id":4,"method":"tasks/result","params":{"taskId":"`+id+`"}}`).body, want)
	modern := &web{t: t, url: w.url, token: w.token}
	assert.Contains(t, modern.modern("tasks/get", id, `"taskId":"`+id+`",`, withTasks).body, want)
}

// The end of a server waits for no request that waits for a person, whether or not its client is still there.
func TestCloseEndsWhatWaits(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	s := n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} })
	w := n.web(t, s)
	w.open()
	a := w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"asks","task":{}}}`)
	result, _ := a.message["result"].(map[string]any)
	task, _ := result["task"].(map[string]any)
	id, _ := task["taskId"].(string)
	require.NotEmpty(t, id, a.body)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		r := w.request(http.MethodPost, `{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"`+id+`"}}`).WithContext(ctx)
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		gone <- err
	}()
	require.Eventually(t, func() bool {
		return strings.Contains(w.post(`{"jsonrpc":"2.0","id":4,"method":"tasks/get","params":{"taskId":"`+id+`"}}`).body, "input_required")
	}, time.Minute, 10*time.Millisecond)
	leave()
	require.Error(t, <-gone)
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		require.Fail(t, "it waits")
	}
}
