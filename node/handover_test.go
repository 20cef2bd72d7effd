package node_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

const handoverRules = `
version: 1
rules:
  - {name: not-bob, action: deny, reason: bob is new, recipients: ["agent:bob"]}
  - {name: ask-for-cleo, action: ask, recipients: ["agent:cleo"]}
`

// The policy rules about recipients apply to handing a call on. A refused call stays with its agent.
func TestHandoverIsBoundByRules(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP = "127.0.0.1:0"
	cfg.Confinement.Policy = filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(cfg.Confinement.Policy, []byte(handoverRules), 0o600))
	n := start(t, cfg)
	ada, bob, dee := enrol(t, n, "ada", 1, "build"), enrol(t, n, "bob", 1, "build"), enrol(t, n, "dee", 1, "build")
	enrol(t, n, "cleo", 1, "build")
	id := submit(t, n.API(), `
orch: v1
name: for ada
steps:
  - {id: a, tool: AGENT_TASK, effect: idempotent, with: {title: do it, agent: ada}}
`)
	calls := claim(t, ada, 1)
	require.Len(t, calls, 1)
	ref := calls[0].Ref
	refused := func(to events.Agents, name, rule string) {
		t.Helper()
		status, answer := say(t, ada, agents.ResultsPath, agents.Report{Ref: ref, HandTo: &to})
		assert.Equal(t, http.StatusForbidden, status, answer)
		var f struct{ Name, Field, Hint, Message string }
		require.NoError(t, json.Unmarshal([]byte(answer), &f))
		assert.Equal(t, name, f.Name)
		assert.Equal(t, "hand_to", f.Field)
		assert.NotEmpty(t, f.Hint)
		assert.Contains(t, f.Message, rule)
	}
	refused(events.Agents{Agent: "bob"}, "FORBIDDEN", "not-bob of the policy file denies AGENT_TASK: bob is new")
	refused(events.Agents{Agent: "cleo"}, "APPROVAL_REQUIRED", "ask-for-cleo of the policy file asks for AGENT_TASK")
	refused(events.Agents{Type: "developer"}, "APPROVAL_REQUIRED", "it cannot be told whether the rule matches")
	assert.Empty(t, claim(t, bob, 1))
	status, answer := say(t, ada, agents.StatusPath, agents.Heartbeat{Calls: []work.CallHeartbeat{{Ref: ref}}})
	require.Equal(t, http.StatusOK, status, answer)
	assert.JSONEq(t, `{}`, answer, "the call is still ada's")

	status, answer = say(t, ada, agents.ResultsPath, agents.Report{Ref: ref, HandTo: &events.Agents{Agent: "dee"}})
	require.Equal(t, http.StatusOK, status, answer)
	calls = claim(t, dee, 1)
	require.Len(t, calls, 1)
	status, answer = say(t, dee, agents.ResultsPath, agents.Report{Ref: calls[0].Ref, Summary: "done"})
	require.Equal(t, http.StatusOK, status, answer)
	assert.Equal(t, statemachine.Done, result(t, n.API(), id).State)
}
