package outside_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// Both spellings of a name lead to the same tool, and its output is one like any other.
func TestPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("desk", "usual", nil)
	w.start()
	out := w.run(`
steps:
  - {id: a, tool: desk.echo, with: {text: one}}
  - {id: b, needs: [a], tool: desk__echo, with: {text: "${{ steps.a.output.structuredContent.text }} two"}}
  - {id: c, needs: [b], tool: BASH_EXECUTE, with: {command: "echo '${{ steps.b.output.content[0].text }}'"}}
outputs: {said: "${{ steps.c.output.stdout }}"}
`)
	assert.JSONEq(t, `{"said":"one two\n"}`, out)
	_, err := w.try(one("desk.none", "{}"))
	assert.Equal(t, fault.InvalidPlan, fault.CodeOf(err))
}

func TestDestructiveToolAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("desk", "usual", nil)
	w.start()
	for as, state := range map[string]statemachine.State{"granted": statemachine.Done, "rejected": statemachine.Failed} {
		id := w.submit(one("desk.wipe", "{text: "+as+"}"))
		a := w.approval(id)
		assert.Equal(t, "desk__wipe", a.Tool)
		assert.NotContains(t, w.peerFile("calls"), as)
		_, err := w.api.Decide(t.Context(), api.DecideRequest{ID: a.ID, As: as, Reason: "because", Actor: operator})
		require.NoError(t, err)
		r := w.result(id)
		assert.Equal(t, state, r.State, "%v", r.Error)
	}
	assert.Equal(t, "wipe granted\n", w.peerFile("calls"))
}

// approval waits until a task requests an approval, and returns it.
func (w *world) approval(id events.TaskID) api.ApprovalView {
	w.t.Helper()
	var list api.ApprovalsReply
	require.Eventually(w.t, func() bool {
		var err error
		list, err = w.api.Approvals(w.t.Context(), api.ApprovalsRequest{Task: id})
		return err == nil && len(list.Approvals) > 0
	}, patience, 10*time.Millisecond)
	return list.Approvals[0]
}

func TestReadOnlyNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("desk", "usual", nil)
	w.start(func(c *node.Config) { c.Confinement.ReadOnly = true })
	assert.JSONEq(t, `{"said":"x"}`, w.run(one("desk.echo", "{text: x}")))
	r := w.result(w.submit(one("desk.write", "{text: x}")))
	assert.Equal(t, statemachine.Failed, r.State)
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.ReadOnly, r.Error.Code, "%v", r.Error)
	assert.Zero(t, w.calls("write"))
}

func TestPolicyFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("desk", "usual", nil)
	file := filepath.Join(w.dir, "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`version: 1
rules:
  - {name: no-writes, action: deny, tools: [desk__write]}
  - {name: look-first, action: ask, tools: ["desk__e*"]}
`), 0o600))
	w.start(func(c *node.Config) { c.Confinement.Policy = file })
	r := w.result(w.submit(one("desk.write", "{text: x}")))
	assert.Equal(t, statemachine.Failed, r.State)
	require.NotNil(t, r.Error)
	assert.Contains(t, r.Error.Message, "no-writes")
	id := w.submit(one("desk.echo", "{text: x}"))
	_, err := w.api.Decide(t.Context(), api.DecideRequest{ID: w.approval(id).ID, As: "granted", Actor: operator})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Done, w.result(id).State)
	assert.Zero(t, w.calls("write"))
}

// The tool selection of a token also applies to tools of servers.
func TestSelection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("desk", "usual", nil)
	w.start()
	w.submit(one("desk.echo", "{text: x}"))
	for tool, ok := range map[string]bool{"desk.echo": true, "desk__echo": true, "desk.write": false, "desk__write": false} {
		text, err := json.Marshal("orch: v1\n" + one(tool, "{text: x}"))
		require.NoError(t, err)
		reply, err := w.api.Submit(t.Context(), api.SubmitRequest{Plan: text, Tools: []string{"desk__echo"}})
		if err != nil {
			assert.False(t, ok, "%s: %v", tool, err)
			continue
		}
		r := w.result(reply.ID)
		assert.Equal(t, ok, r.State == statemachine.Done, "%s: %v", tool, r.Error)
	}
	assert.Zero(t, w.calls("write"))
}

func TestQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("desk", "usual", nil)
	w.start()
	id := w.submit(one("desk.ask", "{}"))
	q := w.question(id)
	assert.Equal(t, "desk__ask", q.Tool)
	assert.Contains(t, string(q.Params), "Who are you?")
	w.answer(q, `{"action":"accept","content":{"name":"Ada"}}`)
	r := w.result(id)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.Contains(t, string(r.Output), "Ada")
	assert.Equal(t, 1, w.calls("ask"))
}

// Changes of servers are in the log, in tasks that are not listed (S1-035, S1-050, S1-052).
func TestJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("desk", "usual", nil)
	w.start()
	w.awaitChange("mcp_tool_loaded desk")
	file := filepath.Join(w.dir, "home", ".orch", "state", "mcp-tools.json")
	for _, on := range []string{"false", "true"} {
		require.NoError(t, os.WriteFile(file, []byte(`{"desk":{"enabled":`+on+`}}`), 0o600))
		w.awaitChange(map[string]string{"false": "mcp_tool_disabled desk", "true": "mcp_tool_enabled desk"}[on])
	}
	require.NoError(t, os.Remove(filepath.Join(w.dir, "home", ".orch", "mcp", "desk.json")))
	w.awaitChange("mcp_tool_removed desk")
	list, err := w.api.List(t.Context(), api.ListRequest{})
	require.NoError(t, err)
	assert.Empty(t, list.Tasks)
	_, err = w.api.Find(t.Context(), api.FindRequest{Text: "@last"})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
}

// awaitChange waits until the log contains a change.
func (w *world) awaitChange(change string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		list, err := w.api.List(w.t.Context(), api.ListRequest{Name: api.OwnPrefix + "*"})
		for _, s := range list.Tasks {
			view, err := w.api.Get(w.t.Context(), api.GetRequest{ID: s.ID})
			if err == nil && view.State == statemachine.Done && strings.Contains(view.Summary, change) {
				return true
			}
		}
		require.NoError(w.t, err)
		return false
	}, patience, 20*time.Millisecond, "%s\n%s", change, w.log)
}
