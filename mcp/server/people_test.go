package server_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/statemachine"
)

// A call that is approved in the form answers with its result: its task is in AWAITING_APPROVAL while it runs.
func TestADeletionThatIsApprovedAnswersWithItsResult(t *testing.T) {
	t.Parallel()
	s := newStand(t, kindsAsked()[0])
	s.asked.answer = `{"action":"accept","content":{"decision":"approve"}}`
	s.enter()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		path := filepath.Join(s.n.root, name)
		write(t, path, "x")
		waits := s.begins(`{"jsonrpc":"2.0","id":"` + name + `","method":"tools/call","params":{"name":"FILE_DELETE","arguments":{"file_path":"` + path + `"}}}`)
		s.reply(waits.question(s.asked))
		result := waits.result()
		assert.NotContains(t, result, "isError")
		assert.Contains(t, result, `"approval_id"`)
		_, err := os.Stat(path)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

// S0-004, A-04: the error names the approval and the rule that demands it, each in a field.
func TestApprovalRequiredNamesApprovalAndRule(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	w.open()
	path := filepath.Join(n.root, "a")
	write(t, path, "x")
	a := w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"FILE_DELETE","arguments":{"file_path":"` + path + `"}}}`)
	result, _ := a.message["result"].(map[string]any)
	meta, _ := result["_meta"].(map[string]any)
	shown, _ := meta["orch/error"].(map[string]any)
	data, _ := shown["data"].(map[string]any)
	assert.Equal(t, "APPROVAL_REQUIRED", shown["name"], a.body)
	assert.Equal(t, "always", data["rule"], a.body)
	assert.Equal(t, meta["orch/taskId"], data["task_id"])
	id, _ := data["approval_id"].(string)
	assert.True(t, strings.HasPrefix(id, "APR_"), a.body)
	content, _ := result["content"].([]any)
	assert.Contains(t, string(raw(content)), id)
}

// doubting is an API whose calls are in doubt.
type doubting struct{ api.API }

// Get implements api.API.
func (d doubting) Get(ctx context.Context, r api.GetRequest) (api.TaskView, error) {
	t, err := d.API.Get(ctx, r)
	for i := range t.Steps {
		t.Steps[i].State = statemachine.StepInDoubt
	}
	return t, err
}

// Result implements api.API.
func (d doubting) Result(ctx context.Context, r api.ResultRequest) (api.ResultReply, error) {
	r.Wait = 0
	now, err := d.API.Result(ctx, r)
	now.Waits = err == nil
	return now, err
}

// A call in doubt is reported as such: it cannot be approved.
func TestACallInDoubtHasItsOwnCode(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens, c.API = tokens{}, doubting{n.owner} }))
	w.open()
	a := w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hangs"}}`)
	assert.Contains(t, a.body, `"name":"IN_DOUBT"`)
	assert.Contains(t, a.body, "orch resolve TASK_")
	w.modern("tasks/cancel", string(n.list()[0].ID), `"taskId":"`+string(n.list()[0].ID)+`",`, withTasks)
}
