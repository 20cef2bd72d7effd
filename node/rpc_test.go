package node_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	settings "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/logtest"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools"
)

// endpoint is /rpc of a node, for a test.
type endpoint struct {
	*node.Node

	t     *testing.T
	token string
	log   *logtest.Buffer
}

type failIn struct {
	Code  string `json:"code,omitempty" jsonschema:"the code to fail with"`
	Count int    `json:"count,omitempty" jsonschema:"a number" minimum:"1" default:"1"`
	Token string `json:"token,omitempty" jsonschema:"a credential" maxLength:"3"`
}

type failOut struct {
	Count int `json:"count"`
}

// failing returns tools that fail as a test wants.
func failing() []tools.Tool {
	spec := func(name string) tools.Spec {
		return tools.Spec{Name: name, Purpose: "test", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval, NoWorkspace: true}
	}
	once := spec("test.fail") // a call with effects is made once
	once.Effect, once.Gate = tools.Write, tools.InProgress
	asks := spec("test.asks")
	asks.Approval, asks.Gate = tools.Always, tools.InProgress
	slow := spec("test.slow")
	slow.Timeout = 50 * time.Millisecond
	limited := spec("test.limited")
	return []tools.Tool{
		tools.Define(limited, func(context.Context, *tools.Env, failIn) (failOut, error) {
			return failOut{}, fault.New(fault.RateLimited, "used up").WithReason("RATE_LIMIT").WithRetryAt(time.Now().Add(time.Hour))
		}),
		tools.Define(once, func(_ context.Context, _ *tools.Env, in failIn) (failOut, error) {
			if in.Code == "" {
				return failOut{in.Count}, nil
			}
			return failOut{}, fault.New(fault.Code(in.Code), "as it was told").WithReason("SOURCE_NAME").WithHint("do something else")
		}),
		tools.Define(spec("test.panic"), func(context.Context, *tools.Env, failIn) (failOut, error) { panic("/secret/path") }),
		tools.Define(spec("test.hang"), func(ctx context.Context, _ *tools.Env, _ failIn) (failOut, error) {
			<-ctx.Done()
			return failOut{}, ctx.Err()
		}),
		tools.Define(slow, func(ctx context.Context, _ *tools.Env, _ failIn) (failOut, error) {
			<-ctx.Done()
			return failOut{}, ctx.Err()
		}),
		tools.Define(asks, func(_ context.Context, _ *tools.Env, in failIn) (failOut, error) { return failOut{in.Count}, nil }),
	}
}

// serveRPC starts a node with /rpc and the token of an operator.
func serveRPC(t *testing.T, change ...func(*node.Config)) *endpoint {
	t.Helper()
	e := serveNode(t, change...)
	e.token = e.issue(bus.NewToken{Name: "op", Role: bus.RoleOperator})
	return e
}

// serveNode starts a node with /rpc.
func serveNode(t *testing.T, change ...func(*node.Config)) *endpoint {
	t.Helper()
	cfg := config(t)
	log := &logtest.Buffer{}
	cfg.Faces.HTTP, cfg.Extra, cfg.User = "127.0.0.1:0", failing(), "ada"
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	for _, c := range change {
		c(&cfg)
	}
	return &endpoint{Node: start(t, cfg), t: t, log: log}
}

func (e *endpoint) issue(token bus.NewToken) string {
	e.t.Helper()
	token.Actor = "user:ada"
	_, secret, err := bus.IssueToken(e.t.Context(), e.Tokens(), token)
	require.NoError(e.t, err)
	return secret
}

// rpcReply is an answer of the endpoint.
type rpcReply struct {
	Status  int
	Header  http.Header
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  map[string]any  `json:"result"`
	Error   *struct {
		Code    int
		Message string
		Data    map[string]any
	} `json:"error"`
}

// post sends a body unchanged.
func (e *endpoint) post(token, body string, headers ...string) rpcReply {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.RPCURL(), strings.NewReader(body))
	require.NoError(e.t, err)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(e.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(e.t, err)
	r := rpcReply{Status: res.StatusCode, Header: res.Header}
	if len(text) > 0 && res.Header.Get("Content-Type") == "application/json" {
		require.NoError(e.t, json.Unmarshal(text, &r), "%s", text)
		assert.Equal(e.t, "2.0", r.Version)
		assert.NotEqual(e.t, r.Result == nil, r.Error == nil, "%s", text)
	}
	return r
}

// call calls a method as the operator.
func (e *endpoint) call(method string, params any, headers ...string) rpcReply {
	e.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "1", "method": method, "params": params})
	require.NoError(e.t, err)
	return e.post(e.token, string(body), headers...)
}

type object = map[string]any

// S3-006: the request of the specification for a tool of GitHub gets the response of the specification.
func TestRPCExampleOfTheSpecification(t *testing.T) {
	t.Parallel()
	content := "# Claude Network\n\nA distributed AI agent system..."
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/repos/sartor-ai/claude-network/contents/README.md?ref=main", r.URL.String())
		assert.NoError(t, json.NewEncoder(w).Encode(object{
			"type": "file", "path": "README.md", "name": "README.md", "sha": "abc123def456", "size": 2048, "encoding": "base64",
			"content": base64.StdEncoding.EncodeToString([]byte(content)),
		}))
	}))
	t.Cleanup(github.Close)
	e := serveRPC(t, func(c *node.Config) { c.Tools.GitHubURL = github.URL })
	r := e.post(e.token, `{"jsonrpc": "2.0", "id": "4", "method": "github.readFile",
		"params": {"owner": "sartor-ai", "repo": "claude-network", "path": "README.md", "ref": "main"}}`)
	assert.Equal(t, http.StatusOK, r.Status)
	assert.JSONEq(t, `"4"`, string(r.ID))
	assert.Equal(t, object{"content": content, "metadata": object{
		"path": "README.md", "size": 2048.0, "sha": "abc123def456", "encoding": "utf8", "type": "file",
	}}, r.Result)
}

// searches and lists contain the position of their page.
func TestRPCPagination(t *testing.T) {
	t.Parallel()
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, json.NewEncoder(w).Encode(object{"total_count": 2500, "incomplete_results": false, "items": []any{}}))
	}))
	t.Cleanup(github.Close)
	secret := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(secret, []byte("ghp_1"), 0o600))
	e := serveRPC(t, func(c *node.Config) {
		c.Tools.GitHubURL, c.Tools.GitHubToken = github.URL, settings.Secret("file:"+secret)
	})
	r := e.call("github.searchCode", object{"query": "q", "perPage": 100, "page": 10})
	require.Nil(t, r.Error, "%v", r.Error)
	assert.Equal(t, object{
		"page": 10.0, "perPage": 100.0, "total": 2500.0, "totalPages": 10.0, "hasNext": false, "hasPrevious": true,
	}, r.Result["pagination"], "GitHub shows a thousand results")
	r = e.call("system.listSkills", object{"category": "git", "limit": 2, "offset": 2})
	require.Nil(t, r.Error, "%v", r.Error)
	assert.Equal(t, object{
		"page": 2.0, "perPage": 2.0, "total": 5.0, "totalPages": 3.0, "hasNext": true, "hasPrevious": true,
	}, r.Result["pagination"])
	assert.NotContains(t, e.call("test.fail", object{}).Result, "pagination")
}

// S3-140 to S3-142: messages that are none.
func TestRPCMessages(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	for _, tc := range []struct {
		name, body string
		status     int
		code       fault.Code
		id         string
	}{
		{"no JSON", `{"jsonrpc":`, 400, fault.ParseError, "null"},
		{"nothing", ``, 400, fault.ParseError, "null"},
		{"two", `{} {}`, 400, fault.ParseError, "null"},
		{"no UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"test.fail\"}", 400, fault.ParseError, "null"},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"test.fail"}]`, 400, fault.InvalidRequest, "null"},
		{"an empty batch", `[]`, 400, fault.InvalidRequest, "null"},
		{"a text", `"x"`, 400, fault.InvalidRequest, "null"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, 400, fault.InvalidRequest, "1"},
		{"a method that is no text", `{"jsonrpc":"2.0","id":1,"method":7}`, 400, fault.InvalidRequest, "1"},
		{"no version", `{"id":1,"method":"test.fail"}`, 400, fault.InvalidRequest, "1"},
		{"the id null", `{"jsonrpc":"2.0","id":null,"method":"test.fail"}`, 400, fault.InvalidRequest, "null"},
		{"an id that is a list", `{"jsonrpc":"2.0","id":[1],"method":"test.fail"}`, 400, fault.InvalidRequest, "null"},
		{"params that are a text", `{"jsonrpc":"2.0","id":1,"method":"test.fail","params":"x"}`, 400, fault.InvalidRequest, "1"},
		{"params by position", `{"jsonrpc":"2.0","id":1,"method":"test.fail","params":[1]}`, 200, fault.InvalidParams, "1"},
		{"an unknown method", `{"jsonrpc":"2.0","id":"x","method":"firebase.no"}`, 200, fault.MethodNotFound, `"x"`},
		{"a method of MCP", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, 200, fault.MethodNotFound, "1"},
	} {
		r := e.post(e.token, tc.body)
		assert.Equal(t, tc.status, r.Status, tc.name)
		require.NotNil(t, r.Error, tc.name)
		assert.Equal(t, tc.code.RPC(), r.Error.Code, tc.name)
		assert.JSONEq(t, tc.id, string(r.ID), tc.name)
		assert.Equal(t, string(tc.code), r.Error.Data["name"], tc.name)
		assert.NotEmpty(t, r.Error.Data["reason"], tc.name)
	}
	r := e.post(e.token, `{"jsonrpc":"2.0","id":1.5,"method":"test.fail"}`)
	assert.JSONEq(t, "1.5", string(r.ID))
	assert.Equal(t, object{"count": 1.0}, r.Result, "absent params are none, and defaults are applied (S3-004)")
	r = e.post(e.token, strings.Repeat(" ", 5<<20))
	assert.Equal(t, http.StatusRequestEntityTooLarge, r.Status)
}

// S3-143 to S3-159: each code, by a call that ends with it.
func TestRPCErrorCodes(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	status, err := e.API().Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	plan := func(tool string) object {
		return object{"plan": object{"orch": "v1", "name": "p", "steps": []object{{"id": "a", "tool": tool}}}, "idempotency_key": "k"}
	}
	require.Nil(t, e.call("orch_submit", plan("test.fail")).Error)
	for _, tc := range []struct {
		code   fault.Code
		method string
		params any
		field  any
	}{
		{fault.Internal, "test.panic", object{}, nil},
		{fault.NotFound, "FILE_READ", object{"file_path": filepath.Join(status.Root, "none")}, nil},
		{fault.OutsideRoot, "FILE_READ", object{"file_path": "/etc/none"}, "file_path"},
		{fault.NotFound, "orch_status", object{"task_id": "TASK_none"}, "task_id"},
		{fault.Conflict, "orch_submit", plan("test.panic"), "idempotency_key"},
		{fault.ValidationError, "test.fail", object{"count": 0}, "count"},
		{fault.ValidationError, "test.fail", object{"no_such": 1}, "no_such"},
		{fault.RequiredField, "github.readFile", object{"owner": "o", "repo": "r"}, "path"},
		{fault.InvalidFormat, "github.readFile", object{"owner": "o o", "repo": "r", "path": "p"}, "owner"},
		{fault.Timeout, "test.slow", object{}, nil},
	} {
		r := e.call(tc.method, tc.params)
		require.NotNil(t, r.Error, "%s: %v", tc.code, r.Result)
		assert.Equal(t, tc.code.RPC(), r.Error.Code, "%s: %v", tc.code, r.Error)
		assert.Equal(t, tc.field, r.Error.Data["field"], "%s", tc.code)
		assert.NotContains(t, r.Error.Message, "/secret/path")
	}
	for _, entry := range fault.Registry() {
		r := e.call("test.fail", object{"code": entry.Code})
		require.NotNil(t, r.Error, entry.Code)
		assert.Equal(t, entry.RPC, r.Error.Code, entry.Code)
		if entry.RPC <= -32100 && entry.RPC > -32600 && entry.Code != fault.InDoubt { // in doubt, a person decides
			assert.Equal(t, "as it was told", r.Error.Message)
			assert.Equal(t, "SOURCE_NAME", r.Error.Data["reason"], "the name of the source is kept")
			assert.Equal(t, "do something else", r.Error.Data["suggestion"])
		}
	}
	assert.Equal(t, object{"count": 3.0}, e.call("test.fail", object{"count": 3}).Result, "the node serves on")
}

// S3-130: the value of the field at fault is shown, unless it is a secret.
func TestRPCErrorsShowNoSecrets(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r := e.call("test.fail", object{"count": -7})
	require.NotNil(t, r.Error)
	assert.InDelta(t, -7, r.Error.Data["value"], 0)
	r = e.call("test.fail", object{"token": "hunter2"})
	require.NotNil(t, r.Error)
	assert.Equal(t, "token", r.Error.Data["field"])
	assert.Equal(t, "[redacted]", r.Error.Data["value"])
	r = e.call("test.fail", object{"count": "AKIA" + strings.Repeat("Q", 16)})
	require.NotNil(t, r.Error)
	assert.Equal(t, "[redacted]", r.Error.Data["value"])
	assert.NotContains(t, e.log.String(), "hunter2")
}

// S3-146 to S3-148: who may, and who may not.
func TestRPCAuthority(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	const body = `{"jsonrpc":"2.0","id":1,"method":"test.fail"}`
	for _, token := range []string{"", "wrong"} {
		r := e.post(token, body)
		assert.Equal(t, http.StatusUnauthorized, r.Status)
		require.NotNil(t, r.Error)
		assert.Equal(t, fault.Unauthorized.RPC(), r.Error.Code)
		assert.Contains(t, r.Header.Get("WWW-Authenticate"), "Bearer")
	}
	viewer := e.issue(bus.NewToken{Name: "eye", Role: bus.RoleViewer})
	r := e.post(viewer, body)
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.Forbidden.RPC(), r.Error.Code)
	narrow := e.issue(bus.NewToken{Name: "bot", Role: bus.RoleAgent, Tools: []string{"FILE_*", "system.*"}})
	r = e.post(narrow, body)
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.MethodNotFound.RPC(), r.Error.Code, "what the identity does not see is not there")
	r = e.post(narrow, `{"jsonrpc":"2.0","id":1,"method":"system.listSkills","params":{"limit":1000}}`)
	require.Nil(t, r.Error, "%v", r.Error)
	assert.Equal(t, []any{"files", "system"}, r.Result["categories"])
	short := e.issue(bus.NewToken{Name: "short", Role: bus.RoleOperator, Life: time.Second})
	require.Eventually(t, func() bool {
		r := e.post(short, body)
		return r.Status == http.StatusUnauthorized && r.Error.Code == fault.TokenExpired.RPC()
	}, time.Minute, 50*time.Millisecond)
	r = e.post(e.token, body, "Origin", "https://evil.example")
	assert.Equal(t, http.StatusForbidden, r.Status)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.RPCURL(), nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	assert.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
}

// S3-007: a request has an id, which the answer, the log of the node and that of the task have.
func TestRPCRequestID(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r := e.call("test.fail", object{"code": "CONFLICT"})
	id := r.Header.Get("X-Request-Id")
	require.NotEmpty(t, id)
	assert.Equal(t, id, r.Error.Data["request_id"])
	task, _ := r.Error.Data["task"].(string)
	h, err := e.API().History(t.Context(), api.HistoryRequest{ID: events.TaskID(task)})
	require.NoError(t, err)
	assert.Equal(t, id, h.Commits[0].Cause)
	assert.Equal(t, "user:op", h.Commits[0].Actor)
	require.Eventually(t, func() bool { return strings.Contains(e.log.String(), "request_id="+id) }, time.Minute, time.Millisecond)
	assert.Equal(t, uint64(1), e.Stats().Tool("test.fail").Errors[fault.Conflict], "and the call is counted, by its error")
}

// The error for a missing approval names the approval, and the call continues when it is granted.
func TestRPCApproval(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r := e.call("test.asks", object{"count": 5})
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.ApprovalRequired.RPC(), r.Error.Code)
	approval, _ := r.Error.Data["approval"].(string)
	task, _ := r.Error.Data["task"].(string)
	assert.Contains(t, r.Error.Data["suggestion"], "orch approve "+approval)
	_, err := e.API().Decide(t.Context(), api.DecideRequest{ID: approval, As: "granted", Actor: "user:bob"})
	require.NoError(t, err)
	r = e.call("orch_result", object{"task_id": task, "wait_seconds": 50})
	require.Nil(t, r.Error, "%v", r.Error)
	assert.Equal(t, object{"result": object{"count": 5.0}}, r.Result["output"])
}

// A call that takes longer than the wait gets TIMEOUT with the id of its task, and continues.
func TestRPCWait(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r := e.call("test.hang", object{}, "Prefer", "respond-async, wait=1")
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.Timeout.RPC(), r.Error.Code)
	task, _ := r.Error.Data["task"].(string)
	view, err := e.API().Get(t.Context(), api.GetRequest{ID: events.TaskID(task)})
	require.NoError(t, err)
	assert.False(t, view.State.Terminal())
	_, err = e.API().Cancel(t.Context(), api.CancelRequest{ID: view.ID})
	require.NoError(t, err)
}

// A call that waits for the end of a rate limit gets no TIMEOUT: the error names the limit and its end.
func TestRPCWaitForARateLimit(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r := e.call("test.limited", object{}, "Prefer", "wait=2")
	require.NotNil(t, r.Error)
	require.Equal(t, fault.RateLimited.RPC(), r.Error.Code, "%v", r.Error)
	assert.Equal(t, "RATE_LIMIT", r.Error.Data["reason"])
	text, _ := r.Error.Data["retry_at"].(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err, "%v", r.Error.Data)
	assert.WithinDuration(t, time.Now().Add(time.Hour), at, 10*time.Minute)
	assert.NotEmpty(t, r.Error.Data["task"])
}

// Notifications get no answer, but their calls are made.
func TestRPCNotifications(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"test.fail","params":{"count":2}}`,
		`{"jsonrpc":"2.0","method":"no.such"}`, `{"jsonrpc":"2.0","method":"test.fail","params":{"count":0}}`,
	} {
		r := e.post(e.token, body)
		assert.Equal(t, http.StatusNoContent, r.Status)
		assert.Nil(t, r.Error)
	}
	require.Eventually(t, func() bool { return e.Stats().Tool("test.fail").Successes == 1 }, time.Minute, time.Millisecond)
}

// S3-008, S3-155: an identity that has too much under way hears RATE_LIMITED, and others do not.
func TestRPCRateLimit(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	other := e.issue(bus.NewToken{Name: "other", Role: bus.RoleOperator})
	const body = `{"jsonrpc":"2.0","id":1,"method":"test.fail"}`
	require.Nil(t, e.post(e.token, body).Error)
	release := e.fill()
	r := e.post(e.token, body)
	assert.Equal(t, http.StatusTooManyRequests, r.Status)
	assert.NotEmpty(t, r.Header.Get("Retry-After"))
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.RateLimited.RPC(), r.Error.Code)
	assert.Nil(t, e.post(other, body).Error)
	release()
	require.Eventually(t, func() bool { return e.post(e.token, body).Error == nil }, time.Minute, 10*time.Millisecond)
}

// fill uses up the bytes in flight of the operator: 16 requests of 4 MiB, which the endpoint has admitted and whose bodies do
// not arrive before release.
func (e *endpoint) fill() (release func()) {
	e.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}}
	var requests sync.WaitGroup
	var bodies []*io.PipeWriter
	admitted := make(chan struct{}, 16)
	trace := httptrace.WithClientTrace(e.t.Context(), &httptrace.ClientTrace{Got100Continue: func() { admitted <- struct{}{} }})
	for range cap(admitted) {
		body, w := io.Pipe()
		bodies = append(bodies, w)
		req, err := http.NewRequestWithContext(trace, http.MethodPost, e.RPCURL(), body)
		require.NoError(e.t, err)
		req.ContentLength = 4 << 20
		req.Header.Set("Authorization", "Bearer "+e.token)
		req.Header.Set("Expect", "100-continue")
		requests.Go(func() {
			if res, err := client.Do(req); err == nil {
				assert.NoError(e.t, res.Body.Close())
			}
		})
	}
	for range cap(admitted) {
		<-admitted
	}
	return func() {
		for _, w := range bodies {
			_ = w.CloseWithError(io.ErrUnexpectedEOF) // always nil
		}
		requests.Wait()
	}
}

// A client that sees only its own tasks has its own idempotency keys.
func TestIdempotencyKeysOfIdentities(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	tokens := map[string]string{"op": e.token, "boss": e.issue(bus.NewToken{Name: "boss", Role: bus.RoleOperator})}
	for _, name := range []string{"one", "two"} {
		tokens[name] = e.issue(bus.NewToken{Name: name, Role: bus.RoleAgent})
	}
	submit := func(who, key string) string {
		body := `{"jsonrpc":"2.0","id":1,"method":"orch_submit","params":{"plan":"orch: v1\nsteps: [{id: a, set: {x: 1}}]\n","idempotency_key":"` + key + `"}}`
		r := e.post(tokens[who], body)
		require.Nil(t, r.Error, "%s: %v", who, r.Error)
		id, _ := r.Result["id"].(string)
		return id
	}
	first := submit("one", "nightly")
	assert.Equal(t, first, submit("one", "nightly"), "its own key")
	second := submit("two", "nightly")
	assert.NotEqual(t, first, second)
	third := submit("op", "nightly")
	assert.NotContains(t, []string{first, second}, third)
	assert.Equal(t, third, submit("boss", "nightly"), "those who see all tasks have keys in common")
	assert.NotEqual(t, submit("one", "redrive:"+third), submit("op", "redrive:"+third))
}
