package node_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// children are the tasks below a task, by name.
func (e *endpoint) children(id events.TaskID) map[string]api.Summary {
	e.t.Helper()
	got, err := e.API().List(e.t.Context(), api.ListRequest{Parent: id})
	require.NoError(e.t, err)
	names := map[string]api.Summary{}
	for _, t := range got.Tasks {
		names[t.Name] = t
	}
	return names
}

// take claims a call, as slow as the node may be, and returns its text.
func (m model) take() string {
	m.e.t.Helper()
	var calls []any
	require.Eventually(m.e.t, func() bool { calls = m.claim(); return len(calls) == 1 }, time.Minute, 10*time.Millisecond)
	m.do("AGENT_HEARTBEAT", object{"calls": []any{named(calls[0])}})
	text, _ := calls[0].(object)["call"].(string)
	require.NotEmpty(m.e.t, text)
	return text
}

// A task that an agent submits over /rpc or MCP belongs to the call that it names, or to the only one that it holds.
func TestDelegatedOverFaces(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	ada, bob := model{e, e.join("ada", "forecast")}, model{e, e.join("bob", "forecast")}
	root := submit(t, e.API(), forecasts)
	call := ada.take()
	waits := func(name string) object {
		return object{"plan": "orch: v1\nsteps:\n  - {id: w, wait: {signal: go}}\n", "name": name}
	}
	post := func(m model, args object, headers ...string) rpcReply {
		body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "orch_submit", "params": args})
		require.NoError(t, err)
		return m.e.post(m.cred.Secret, string(body), headers...)
	}
	for name, reply := range map[string]rpcReply{
		"default":  post(ada, waits("default")),
		"header":   post(ada, waits("header"), "Orch-Call", call),
		"argument": post(ada, with(waits("argument"), "for", call)),
	} {
		require.Nil(t, reply.Error, "%s: %v", name, reply.Error)
	}
	answer := inSession(t, e.Node, ada.cred.Secret, "orch_submit", waits("meta"), object{"orch/call": call})
	require.NotEqual(t, true, answer["isError"], "%v", answer)
	below := e.children(root)
	for _, name := range []string{"default", "header", "argument", "meta"} {
		assert.Equal(t, "agent:ada", below[name].Requestor, name)
	}

	refused := post(bob, waits("foreign"), "Orch-Call", call)
	require.NotNil(t, refused.Error)
	assert.Equal(t, fault.Forbidden.RPC(), refused.Error.Code)
	assert.Equal(t, "CALL_NOT_HELD", refused.Error.Data["reason"])
	refused = post(ada, waits("broken"), "Orch-Call", "nonsense")
	require.NotNil(t, refused.Error)
	assert.Equal(t, fault.InvalidFormat.RPC(), refused.Error.Code)
	assert.NotContains(t, e.children(root), "foreign")

	id := below["header"].ID
	seen := ada.do("orch_status", object{"task_id": id})
	assert.Nil(t, seen.Error, "what it has delegated is its own: %v", seen.Error)
	hidden := bob.do("orch_status", object{"task_id": id})
	assert.NotNil(t, hidden.Error)

	_, err := e.API().Cancel(t.Context(), api.CancelRequest{ID: root})
	require.NoError(t, err)
	for name, child := range below {
		assert.Equal(t, statemachine.Cancelled, result(t, e.API(), child.ID).State, name)
	}
}
