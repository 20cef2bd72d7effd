package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// model is an agent that uses the tools of the node.
type model struct {
	e    *endpoint
	cred peer.Credential
}

// do calls a tool over /rpc.
func (m model) do(tool string, args any) rpcReply {
	m.e.t.Helper()
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": tool, "params": args})
	require.NoError(m.e.t, err)
	return m.e.post(m.cred.Secret, string(body))
}

// claim claims calls without waiting.
func (m model) claim(has ...any) []any {
	m.e.t.Helper()
	r := m.do("AGENT_CLAIM", object{"wait_seconds": 0, "has": append([]any{}, has...)})
	require.Nil(m.e.t, r.Error, "%v", r.Error)
	calls, _ := r.Result["calls"].([]any)
	return calls
}

// named returns the fields that identify a call.
func named(call any) object {
	c, _ := call.(object)
	return object{"task": c["task"], "step": c["step"], "attempt": c["attempt"]}
}

func with(fields object, name string, value any) object {
	fields[name] = value
	return fields
}

// A model that can call tools can be an agent with its credential only. Its own calls as an agent create no tasks.
func TestModelIsAnAgentByTools(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	ada, bob := model{e, e.join("ada", "forecast")}, model{e, e.join("bob", "forecast")}
	before := tasksOf(t, e.Node)
	id := submit(t, e.API(), forecasts)
	var calls []any
	require.Eventually(t, func() bool { calls = ada.claim(); return len(calls) == 1 }, time.Minute, 10*time.Millisecond)
	call, _ := calls[0].(object)
	assert.Equal(t, string(id), call["task"])
	assert.Equal(t, "look ahead", call["title"])
	assert.Equal(t, string(id)+"/a", call["key"])
	assert.InDelta(t, 30, call["left_seconds"], 15, "as it has registered (S3-085)")
	assert.InDelta(t, 90, call["lease_seconds"], 0)
	assert.Empty(t, bob.claim(), "ada has it")
	again := ada.claim()
	require.Len(t, again, 1, "ada has never named it")
	assert.Equal(t, named(call), named(again[0]))
	assert.Empty(t, ada.claim(named(call)))

	r := ada.do("AGENT_HEARTBEAT", object{"calls": []any{with(named(call), "progress", object{"done": 1, "total": 2})}})
	require.Nil(t, r.Error, "%v", r.Error)
	assert.Equal(t, []any{}, r.Result["stop"])
	r = bob.do("AGENT_HEARTBEAT", object{"calls": []any{named(call)}})
	require.Nil(t, r.Error, "%v", r.Error)
	assert.Len(t, r.Result["stop"], 1, "it is not bob's")
	r = bob.do("AGENT_REPORT", with(named(call), "result", 1))
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.Conflict.RPC(), r.Error.Code)
	r = ada.do("AGENT_REPORT", named(call))
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.RequiredField.RPC(), r.Error.Code)
	answer := inSession(t, e.Node, ada.cred.Secret, "AGENT_REPORT", with(named(call), "result", object{"sun": true}))
	assert.Equal(t, object{"accepted": true}, answer["structuredContent"], "%v", answer)
	done := result(t, e.API(), id)
	require.Equal(t, statemachine.Done, done.State)
	assert.Contains(t, actorsOf(t, e.Node, id), "agent:ada")
	assert.Equal(t, before+1, tasksOf(t, e.Node), "the log has the work, and nothing else")
}

func tasksOf(t *testing.T, n *node.Node) int {
	t.Helper()
	all, err := n.API().List(t.Context(), api.ListRequest{Limit: 1000})
	require.NoError(t, err)
	return len(all.Tasks)
}

// A caller that is not a registered agent is told how to become one. Plans and other tasks cannot act for an agent.
func TestOnlyAgentsSpeakAsAgents(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	impostor := e.issue(bus.NewToken{Name: "ada", Role: bus.RoleAgent})
	for tool, args := range map[string]object{
		"AGENT_CLAIM": {}, "AGENT_HEARTBEAT": {}, "AGENT_REPORT": {"task": "TASK_1", "step": "a", "attempt": 1, "result": 1},
	} {
		for _, token := range []string{e.token, impostor, e.issue(bus.NewToken{Name: "sub-" + string(rune('a'+len(tool)%26)), Role: bus.RoleSubmitter})} {
			r := model{e, peer.Credential{Secret: token}}.do(tool, args)
			require.NotNil(t, r.Error, tool)
			assert.Equal(t, fault.Forbidden.RPC(), r.Error.Code, tool)
			assert.Contains(t, r.Error.Data["suggestion"], "onboarding.registerAgent")
		}
		_, err := e.API().Submit(t.Context(), api.SubmitRequest{
			Plan: json.RawMessage(`{"orch": "v1", "steps": [{"id": "a", "tool": "` + tool + `", "with": {"task": "T", "step": "a", "attempt": 1}}]}`), Actor: "agent:ada",
		})
		assert.Equal(t, fault.InvalidPlan, fault.CodeOf(err), tool)
		id := submit(t, e.API(), `{orch: v1, steps: [{id: a, wait: {signal: go}}]}`)
		text, err := json.Marshal(args)
		require.NoError(t, err)
		_, err = e.API().Call(t.Context(), api.CallRequest{ID: id, Tool: tool, Args: text, Actor: "agent:ada", Wait: time.Minute})
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err), tool)
	}
}

// An agent that sees hardly any tools, and none with effects, can still act for itself. Other identities with as few tools
// cannot.
func TestNarrowAgentsSpeakForThemselves(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	_, _, err := bus.IssueToken(t.Context(), e.Tokens(), bus.NewToken{Name: "sue", Role: bus.RoleSubmitter, Tools: []string{"system.getAgents"}, ReadOnly: true, Actor: "user:ada"})
	require.NoError(t, err)
	task := events.NewTaskID(time.Now())
	m, err := e.Agents().Register(t.Context(), agents.Registration{Name: "helper", Task: task, By: "user:sue", Profile: agents.Profile{
		Type: "analyst", Version: "1.0.0", MaxTasks: 1, Timeout: time.Minute, Capabilities: []agents.Capability{{Name: "a", Category: "b"}},
	}})
	require.NoError(t, err)
	got, err := e.Agents().Collect(t.Context(), agents.Collection{Task: task, By: "user:sue"})
	require.NoError(t, err)
	helper := model{e, peer.Credential{Agent: m.ID, Name: "helper", Secret: got.Secret}}
	assert.Empty(t, helper.claim())
	require.Nil(t, helper.do("AGENT_HEARTBEAT", object{}).Error)
	answer := inSession(t, e.Node, got.Secret, "AGENT_CLAIM", object{"wait_seconds": 0})
	assert.Equal(t, object{"calls": []any{}, "stop": []any{}}, answer["structuredContent"], "%v", answer)
	r := helper.do("FILE_READ", object{"file_path": "/x"})
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.MethodNotFound.RPC(), r.Error.Code)
	narrow := e.issue(bus.NewToken{Name: "narrow", Role: bus.RoleAgent, Tools: []string{"system.getAgents"}})
	r = model{e, peer.Credential{Secret: narrow}}.do("AGENT_CLAIM", object{})
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.MethodNotFound.RPC(), r.Error.Code)
}

// A waiting claim occupies no worker: with a single worker, other tasks continue, also the one whose call it waits for. A
// cancelled claim loses nothing.
func TestClaimThatWaitsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	e := serveRPC(t, func(cfg *node.Config) { cfg.Worker.Concurrency = 1 })
	ada := model{e, e.join("ada", "forecast")}
	type answer struct{ calls []any }
	waited := make(chan answer, 1)
	go func() {
		r := ada.do("AGENT_CLAIM", object{"wait_seconds": 30})
		calls, _ := r.Result["calls"].([]any)
		waited <- answer{calls}
	}()
	require.Equal(t, statemachine.Done, run(t, e.API(), `{orch: v1, steps: [{id: a, tool: system.getAgents, with: {}}]}`).State)
	id := submit(t, e.API(), `{orch: v1, steps: [{id: first, tool: system.getAgents, with: {}}, {id: a, needs: [first], tool: AGENT_TASK, with: {title: x, requires: [forecast]}}]}`)
	got := <-waited
	if len(got.calls) == 0 { // it took more than 30 s to get here
		require.Eventually(t, func() bool { got.calls = ada.claim(); return len(got.calls) == 1 }, time.Minute, 10*time.Millisecond)
	}
	require.Nil(t, ada.do("AGENT_REPORT", with(named(got.calls[0]), "result", object{})).Error)
	require.Equal(t, statemachine.Done, result(t, e.API(), id).State)

	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.RPCURL(), jsonBody(t, object{"jsonrpc": "2.0", "id": 1, "method": "AGENT_CLAIM", "params": object{"wait_seconds": 30}}))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+ada.cred.Secret)
	req.Header.Set("Content-Type", "application/json")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if r, err := http.DefaultClient.Do(req); err == nil {
			_ = r.Body.Close()
		}
	}()
	id = submit(t, e.API(), `{orch: v1, steps: [{id: a, tool: AGENT_TASK, with: {title: x, requires: [forecast]}}]}`)
	cancel()
	<-gone
	var calls []any
	require.Eventually(t, func() bool { calls = ada.claim(); return len(calls) == 1 }, time.Minute, 10*time.Millisecond)
	require.Nil(t, ada.do("AGENT_REPORT", with(named(calls[0]), "error", "no sun")).Error)
	r := result(t, e.API(), id)
	assert.Equal(t, statemachine.Failed, r.State)
	assert.Contains(t, fmt.Sprint(r.Error), "no sun")
}

// An agent that is removed while it waits for a call gets none.
func TestClaimEndsWithItsAgent(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	ada := model{e, e.join("ada", "forecast")}
	ended := make(chan rpcReply, 1)
	go func() { ended <- ada.do("AGENT_CLAIM", object{"wait_seconds": 30}) }()
	require.Eventually(t, func() bool { return statusOf(t, e.Node, "ada") == agents.Idle }, time.Minute, 10*time.Millisecond)
	_, err := e.Agents().Remove(t.Context(), agents.Removal{Agent: "ada", By: "user:test"})
	require.NoError(t, err)
	r := <-ended
	submit(t, e.API(), forecasts)
	assert.Empty(t, r.Result["calls"])
	assert.Equal(t, http.StatusUnauthorized, ada.do("AGENT_CLAIM", object{}).Status)
}

func jsonBody(t *testing.T, v any) *bytes.Reader {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return bytes.NewReader(text)
}
