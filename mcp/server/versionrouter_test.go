package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
)

// tokens are bearer tokens that name their holder and role: "ada.operator".
type tokens struct{}

// Verify implements server.Tokens.
func (tokens) Verify(_ context.Context, token string) (server.Identity, time.Time, error) {
	name, role, ok := strings.Cut(token, ".")
	if !ok {
		return server.Identity{}, time.Time{}, fault.New(fault.Unauthorized, "the token is not known")
	}
	return server.Identity{Name: "user:" + name, Role: server.Role(role)}, time.Time{}, nil
}

// kept stores sessions in memory.
type kept struct{ m sync.Map }

// SaveSession implements server.Sessions.
func (k *kept) SaveSession(_ context.Context, id string, data []byte) error {
	k.m.Store(id, data)
	return nil
}

// LoadSession implements server.Sessions.
func (k *kept) LoadSession(_ context.Context, id string) ([]byte, error) {
	data, _ := k.m.Load(id)
	raw, _ := data.([]byte)
	return raw, nil
}

// DeleteSession implements server.Sessions.
func (k *kept) DeleteSession(_ context.Context, id string) error {
	k.m.Delete(id)
	return nil
}

// web is a client of a face over HTTP.
type web struct {
	t       *testing.T
	url     string
	token   string
	session string
	header  map[string]string
}

func (n *node) web(t *testing.T, s *server.Server) *web {
	t.Helper()
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return &web{t: t, url: h.URL, token: "ada.operator"}
}

// answer is a response.
type answer struct {
	status  int
	body    string
	session string
	message map[string]any
}

func (w *web) request(method, body string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url, strings.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range map[string]string{"Authorization": "Bearer " + w.token, "Mcp-Session-Id": w.session} {
		if strings.TrimSpace(strings.TrimPrefix(value, "Bearer")) != "" {
			r.Header.Set(name, value)
		}
	}
	for name, value := range w.header {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	return r
}

func (w *web) post(body string) answer {
	w.t.Helper()
	return w.do(w.request(http.MethodPost, body))
}

func (w *web) do(r *http.Request) answer {
	w.t.Helper()
	resp, err := http.DefaultClient.Do(r)
	require.NoError(w.t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	a := answer{status: resp.StatusCode, body: string(data), session: resp.Header.Get("Mcp-Session-Id")}
	for line := range strings.SplitSeq(a.body, "\n") {
		_ = json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &a.message)
	}
	return a
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// open opens a session.
func (w *web) open() {
	w.t.Helper()
	a := w.post(initialize)
	require.Equal(w.t, http.StatusOK, a.status, a.body)
	w.session = a.session
	require.Equal(w.t, http.StatusAccepted, w.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`).status)
}

func code(a answer) any {
	e, _ := a.message["error"].(map[string]any)
	return e["code"]
}

// S2-008, S4-002, A-95: unauthorized clients are refused.
func TestHTTPKeepsOut(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	for name, tc := range map[string]struct {
		change func(*web)
		status int
	}{
		"no token":        {func(w *web) { w.token = "" }, http.StatusUnauthorized},
		"unknown token":   {func(w *web) { w.token = "nobody" }, http.StatusUnauthorized},
		"other scheme":    {func(w *web) { w.header = map[string]string{"Authorization": "Basic ada.operator"} }, http.StatusUnauthorized},
		"foreign origin":  {func(w *web) { w.header = map[string]string{"Origin": "https://evil.example"} }, http.StatusForbidden},
		"null origin":     {func(w *web) { w.header = map[string]string{"Origin": "null"} }, http.StatusForbidden},
		"foreign host":    {func(w *web) { w.header = map[string]string{"Host": "evil.example"} }, http.StatusForbidden},
		"unknown session": {func(w *web) { w.session = "nope" }, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := &web{t: t, url: w.url, token: w.token}
			tc.change(other)
			assert.Equal(t, tc.status, other.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`).status)
		})
	}
	own := &web{t: t, url: w.url, token: w.token, header: map[string]string{"Origin": w.url}}
	assert.Equal(t, http.StatusOK, own.post(initialize).status, "its own origin may")
	assert.Equal(t, http.StatusRequestEntityTooLarge, w.post(`{"a":"`+strings.Repeat("x", server.MaxBody)+`"}`).status)
}

// S2-009, S3-140 to S3-143: malformed messages get their codes, and affect no others.
func TestHTTPMalformed(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	assert.EqualValues(t, -32600, code(w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)), "before initialize")
	w.open()
	for body, want := range map[string]int{
		``: -32700, `{`: -32700, `{"jsonrpc":"2.0","id":1,"method":"ping"} {}`: -32700, "\x00": -32700, `nul`: -32700, "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}": -32700,
		`[]`: -32600, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`: -32600, `17`: -32600, `"ping"`: -32600, `null`: -32600,
		`{}`: -32600, `{"jsonrpc":"2.0","id":1}`: -32600,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`: -32600, `{"jsonrpc":"2.0","id":{},"method":"ping"}`: -32600,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`: -32600, `{"jsonrpc":"2.0","id":1,"method":17}`: -32600,
		`{"jsonrpc":"2.0","id":1,"method":"nope"}`:       -32601,
		`{"jsonrpc":"2.0","id":1,"method":"initialize"}`: -32600,
	} {
		a := w.post(body)
		assert.EqualValues(t, want, code(a), "%q: %s", body, a.body)
	}
	assert.Equal(t, http.StatusOK, w.post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`).status)
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodHead} {
		assert.Equal(t, http.StatusMethodNotAllowed, w.do(w.request(method, "")).status, method)
	}
}

// A session of an earlier process is reopened under its id, with its subscriptions,
// and only for its owner.
func TestSessionSurvivesItsServer(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	store := &kept{}
	config := func(c *server.Config) { c.HTTP.Tokens, c.Stores.Sessions = tokens{}, store }
	first := n.web(t, n.face(config))
	first.open()
	require.Equal(t, http.StatusOK, first.post(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}`).status)
	second := n.web(t, n.face(config))
	second.session = first.session
	stranger := &web{t: t, url: second.url, token: "bob.operator", session: first.session}
	assert.Equal(t, http.StatusNotFound, stranger.post(`{"jsonrpc":"2.0","id":3,"method":"ping"}`).status)
	a := second.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"steps"}}`)
	assert.Contains(t, a.body, `"look out"`, "its log level is as it was")
	assert.Contains(t, a.body, `"id":3`)
	assert.Equal(t, http.StatusForbidden, stranger.post(`{"jsonrpc":"2.0","id":3,"method":"ping"}`).status)
	assert.Equal(t, http.StatusNoContent, second.do(second.request(http.MethodDelete, "")).status)
	assert.Equal(t, http.StatusNotFound, second.post(`{"jsonrpc":"2.0","id":4,"method":"ping"}`).status)
}

// S2-067: the status of a task comes on the stream of the session.
func TestStatusOnTheStream(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	w.open()
	resp, err := http.DefaultClient.Do(w.request(http.MethodGet, ""))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	a := w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","task":{}}}`)
	require.Contains(t, a.body, `"status":"working"`)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "notifications/tasks/status") {
			assert.Contains(t, lines.Text(), `"status":"completed"`)
			return
		}
	}
	require.Fail(t, "the stream has ended without the status")
}

// modern sends a request of 2026-07-28.
func (w *web) modern(method, name, params string, capabilities string) answer {
	w.t.Helper()
	w.header = map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
	return w.post(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`)
}

const withTasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// One URL serves both generations; headers have to fit the body.
func TestHTTPModern(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	a := w.modern("tools/call", "at_once", `"name":"at_once",`, withTasks)
	result, _ := a.message["result"].(map[string]any)
	id, _ := result["taskId"].(string)
	require.NotEmpty(t, id, a.body)
	a = w.modern("tasks/get", "TASK_other", `"taskId":"`+id+`",`, withTasks)
	assert.Equal(t, http.StatusBadRequest, a.status)
	assert.EqualValues(t, -32020, code(a))
	a = w.modern("tasks/get", id, `"taskId":"`+id+`",`, withTasks)
	assert.Contains(t, a.body, `"taskId":"`+id+`"`)
	a = w.modern("tools/call", "task_only", `"name":"task_only",`, `{}`)
	assert.Equal(t, http.StatusBadRequest, a.status)
	assert.EqualValues(t, -32021, code(a))
	w.token = "bob.submitter"
	assert.EqualValues(t, -32602, code(w.modern("tasks/get", id, `"taskId":"`+id+`",`, withTasks)), "S2-071: somebody else's")
	w.token = "eve.viewer"
	assert.Contains(t, w.modern("tasks/get", id, `"taskId":"`+id+`",`, withTasks).body, id, "a viewer sees all")
	assert.EqualValues(t, -32101, code(w.modern("tools/call", "echo", `"name":"echo",`, `{}`)), "and calls nothing")
	assert.EqualValues(t, -32101, code(w.modern("tasks/cancel", id, `"taskId":"`+id+`",`, withTasks)))
}

// newOnly is an API whose long waits must not be for commits from the beginning of a history.
type newOnly struct {
	api.API

	t *testing.T
}

// Watch implements api.API.
func (n newOnly) Watch(ctx context.Context, r api.WatchRequest) (api.WatchReply, error) {
	if r.Wait == time.Minute {
		assert.NotZero(n.t, r.After)
	}
	return n.API.Watch(ctx, r)
}

// A subscription to tasks starts with its acknowledgement and ends with the last of them. It reads no earlier commits.
func TestListenToTasks(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens, c.API = tokens{}, newOnly{c.API, t} }))
	a := w.modern("tools/call", "asks", `"name":"asks",`, `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	result, _ := a.message["result"].(map[string]any)
	id, _ := result["taskId"].(string)
	require.NotEmpty(t, id, a.body)
	listened := make(chan answer, 1)
	go func() {
		l := &web{t: t, url: w.url, token: w.token}
		listened <- l.modern("subscriptions/listen", "", `"notifications":{"taskIds":["`+id+`","TASK_nope"]},`, withTasks)
	}()
	other := &web{t: t, url: w.url, token: w.token}
	require.Eventually(t, func() bool {
		return strings.Contains(other.modern("tasks/get", id, `"taskId":"`+id+`",`, `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`).body, "inputRequests")
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, http.StatusOK, other.modern("tasks/cancel", id, `"taskId":"`+id+`",`, withTasks).status)
	select {
	case a := <-listened:
		ack, state, end := strings.Index(a.body, "notifications/subscriptions/acknowledged"), strings.Index(a.body, `"status":"cancelled"`), strings.Index(a.body, `"result"`)
		assert.True(t, ack > 0 && state > ack && end > state, a.body)
	case <-time.After(time.Minute):
		require.Fail(t, "the subscription goes on")
	}
	w.header = map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "ping"}
	assert.EqualValues(t, -32020, code(w.post(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["`+id+`"]}}}`)))
}

// S2-068: after its TTL a task is hidden from clients, and still in the log.
func TestTaskIsGoneAfterItsTime(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens, c.Now = tokens{}, clock }))
	a := w.modern("tools/call", "at_once", `"name":"at_once",`, withTasks)
	result, _ := a.message["result"].(map[string]any)
	id, _ := result["taskId"].(string)
	require.NotEmpty(t, id, a.body)
	assert.Nil(t, code(w.modern("tasks/get", id, `"taskId":"`+id+`",`, withTasks)))
	mu.Lock()
	now = now.Add(24*time.Hour + time.Minute)
	mu.Unlock()
	assert.EqualValues(t, -32602, code(w.modern("tasks/get", id, `"taskId":"`+id+`",`, withTasks)))
	assert.Len(t, n.list(), 1, "the log has it")
}

// FuzzFront checks that no message stops the process or bypasses the bearer token.
func FuzzFront(f *testing.F) {
	n := startNode(f)
	s := n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} })
	h := s.Handler()
	f.Add(initialize, "2025-11-25", "", "ada.operator")
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","task":{"ttl":1},"_meta":{"orch/taskId":"x"}}}`, "2026-07-28", "tools/call", "ada.agent")
	f.Add(`{"jsonrpc":"2.0","id":{},"method":"tasks/get","params":[]}`, "", "tasks/get", "")
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["a"]}}}`, "2026-07-28", "subscriptions/listen", "a.b")
	f.Fuzz(func(t *testing.T, body, version, method, token string) {
		ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer stop()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": version, "Mcp-Method": method, "Authorization": "Bearer " + token,
		} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !strings.Contains(token, ".") {
			require.Equal(t, http.StatusUnauthorized, w.Code)
		}
		require.Less(t, w.Code, 500, w.Body.String())
	})
}
