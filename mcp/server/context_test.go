package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/mcp/server"
)

// caller calls a tool in one session and returns the text of the answer.
type caller func(tool, args string) string

// sessionsOf returns callers of both generations, whose sessions continue after a restart of the face.
func sessionsOf(t *testing.T, n *node) map[string]func(name string) caller {
	t.Helper()
	store := &kept{}
	faces := func() *web {
		return n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens, c.Stores.Sessions = tokens{}, store }))
	}
	return map[string]func(string) caller{
		"2025-11-25": func(string) caller {
			w := faces()
			w.open()
			return func(tool, args string) string {
				w.url = faces().url
				return w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)).body
			}
		},
		"2026-07-28, named": func(name string) caller {
			return func(tool, args string) string {
				w := faces()
				w.header = map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
				return w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
					`"io.modelcontextprotocol/clientCapabilities":{},"orch/session":%q}}}`, tool, args, name)).body
			}
		},
	}
}

// The task of a call, and one of orch_submit, belong to the trace of the client. What is no traceparent is ignored.
func TestTraceOfAClient(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	w.open()
	const position = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for i, call := range []string{
		`"name":"echo","arguments":{"text":"hi"}`,
		`"name":"orch_submit","arguments":{"plan":{"orch":"v1","name":"p","steps":[{"id":"a","tool":"echo","with":{"text":"hi"}}]}}`,
	} {
		for sent, want := range map[string]string{`"` + position + `"`: position, `"none"`: "", `7`: ""} {
			w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,"_meta":{"traceparent":%s}}}`, 10+i, call, sent))
			assert.Equal(t, want, n.newest().TraceParent, call)
			assert.Empty(t, n.newest().TraceState)
		}
		for sent, want := range map[string]string{`"rojo=1,congo=t61"`: "rojo=1,congo=t61", `"none"`: "", `7`: ""} {
			w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,"_meta":{"traceparent":%q,"tracestate":%s}}}`, 20+i, call, position, sent))
			assert.Equal(t, position, n.newest().TraceParent, call)
			assert.Equal(t, want, n.newest().TraceState, call)
		}
	}
}

// newest returns the submission of the newest task.
func (n *node) newest() *events.Submitted {
	n.t.Helper()
	list, err := n.owner.List(n.t.Context(), api.ListRequest{Limit: 1})
	require.NoError(n.t, err)
	require.NotEmpty(n.t, list.Tasks)
	history, err := n.owner.History(n.t.Context(), api.HistoryRequest{ID: list.Tasks[0].ID})
	require.NoError(n.t, err)
	sub, ok := history.Commits[0].Events[0].Data.(*events.Submitted)
	require.True(n.t, ok)
	return sub
}

// A session is one context for its calls, across a restart of the face; others do not share it.
func TestSessionsAreOneContext(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for generation, open := range sessionsOf(t, n) {
		file := filepath.Join(n.root, generation, "a.txt")
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte("one two"), 0o600))
		mine, others := open("mine"), open("others")
		assert.Contains(t, mine("FILE_READ", fmt.Sprintf(`{"file_path":%q}`, file)), "one two", generation)
		edit := fmt.Sprintf(`{"file_path":%q,"old_string":"one","new_string":"three"}`, file)
		assert.Contains(t, others("FILE_EDIT", edit), "NOT_READ", generation)
		assert.Contains(t, mine("FILE_EDIT", edit), `"replacements":1`, generation)
		made := mine("CHECKPOINT_CREATE", `{"checkpoint_name":"here","state_data":{"n":7}}`)
		id := regexp.MustCompile(`CKPT_[0-9A-Za-z_]+`).FindString(made)
		require.NotEmpty(t, id, made)
		assert.Contains(t, mine("CHECKPOINT_RESTORE", `{"checkpoint_id":"`+id+`"}`), `"n":7`, generation)
		assert.NotContains(t, others("CHECKPOINT_RESTORE", `{"checkpoint_id":"`+id+`"}`), `"n":7`, generation)
	}
}

// A grant for a session permits one of its calls.
func TestGrantsOfASession(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for generation, open := range sessionsOf(t, n) {
		file := filepath.Join(n.root, generation+".txt")
		mine := open("mine")
		write := fmt.Sprintf(`{"file_path":%q,"content":"x"}`, file)
		asked := mine("APPROVAL_REQUEST", `{"request_type":"pre_execution","description":"d","rationale":"r","timeout":600,"priority":"medium",`+
			`"details":{"tool":"FILE_WRITE","arguments":`+write+`}}`)
		id := regexp.MustCompile(`APR_[0-9A-Za-z_]+`).FindString(asked)
		require.NotEmpty(t, id, asked)
		assert.Contains(t, mine("APPROVAL_CHECK", `{"approval_id":"`+id+`"}`), `"status":"pending"`, generation)
		_, err := n.owner.Decide(t.Context(), api.DecideRequest{ID: id, As: "granted", Actor: "user:eve"})
		require.NoError(t, err)
		assert.Contains(t, mine("APPROVAL_CHECK", `{"approval_id":"`+id+`"}`), `"status":"granted"`, generation)
		answer := mine("FILE_WRITE", write)
		assert.FileExists(t, file, answer)
		assert.Contains(t, mine("FILE_WRITE", write), "APPROVAL_REQUIRED", "a grant is good for one call")
	}
}

// The calls of a session are separate tasks, which can be found by it; when it ends, the next call gets a new context.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	w.open()
	w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}}}`)
	sessions := func() []api.Summary {
		got, err := n.owner.List(t.Context(), api.ListRequest{Name: api.SessionName + "*"})
		require.NoError(t, err)
		return got.Tasks
	}
	require.Len(t, sessions(), 1)
	session := sessions()[0]
	assert.Equal(t, api.SessionName+"t", session.Name)
	assert.False(t, session.State.Terminal())
	calls, err := n.owner.List(t.Context(), api.ListRequest{Session: session.ID})
	require.NoError(t, err)
	require.Len(t, calls.Tasks, 1)
	assert.Equal(t, "echo", calls.Tasks[0].Name)
	r := w.request(http.MethodDelete, "")
	require.Equal(t, http.StatusNoContent, w.do(r).status)
	require.Len(t, sessions(), 1)
	assert.True(t, sessions()[0].State.Terminal(), "%s", sessions()[0].State)
}

// A call in an ended session gets a new one.
func TestCallsGoOnInANewSession(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	mine := sessionsOf(t, n)["2025-11-25"]("")
	mine("echo", `{"text":"a"}`)
	got, err := n.owner.List(t.Context(), api.ListRequest{Name: api.SessionName + "*"})
	require.NoError(t, err)
	require.Len(t, got.Tasks, 1)
	_, err = n.owner.Signal(t.Context(), api.SignalRequest{ID: got.Tasks[0].ID, Name: api.SessionEnd, Actor: "user:ada"})
	require.NoError(t, err)
	assert.Contains(t, mine("echo", `{"text":"b"}`), `"text":"b"`)
}

// No identity can use the session of another.
func TestSessionsBelongToTheirOwner(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	id := events.KeyedTaskID("user:ada", "x")
	plan := api.SessionPlan(1e9)
	_, err := n.owner.Submit(t.Context(), api.SubmitRequest{ID: id, Session: id, Plan: plan, Actor: "user:ada"})
	require.NoError(t, err)
	call := json.RawMessage(`{"orch":"v1","steps":[{"id":"a","tool":"echo"}]}`)
	_, err = n.owner.Submit(t.Context(), api.SubmitRequest{Plan: call, Session: id, Shares: true, Actor: "user:eve"})
	require.ErrorContains(t, err, "no session")
	other, err := n.owner.Submit(t.Context(), api.SubmitRequest{Plan: call, Actor: "user:eve"})
	require.NoError(t, err)
	_, err = n.owner.Submit(t.Context(), api.SubmitRequest{Plan: call, Session: other.ID, Shares: true, Actor: "user:eve"})
	require.ErrorContains(t, err, "no session")
}
