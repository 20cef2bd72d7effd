package agent_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/agent"
	"github.com/orch-dev/orch/work"
)

// fakeDispatcher records the requests of the agent ada, the only registered one.
type fakeDispatcher struct {
	claim  agents.Claim
	beat   agents.Heartbeat
	report agents.Report
}

func (d *fakeDispatcher) Member(_ context.Context, id string) (agents.Member, error) {
	if id != "agent-1" {
		return agents.Member{}, fault.New(fault.Unauthorized, "there is no registered agent of this id")
	}
	return agents.Member{Name: "ada"}, nil
}

func (d *fakeDispatcher) Claim(_ context.Context, _ agents.Member, c agents.Claim) (agents.Work, error) {
	d.claim = c
	return agents.Work{Calls: []agents.Assignment{{
		Ref: work.Ref{Task: "TASK_1", Step: "a", Attempt: 2}, Key: "TASK_1/a", Name: "n", Args: json.RawMessage(`{"title":"t","description":"d","data":{"n":12345678901234567890},"requires":["x"]}`),
		Deadline: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Remaining: 90*time.Second + 4*time.Nanosecond, Lease: 90 * time.Second,
	}}, Stop: []work.Ref{{Task: "TASK_2", Step: "b", Attempt: 1}}}, nil
}

func (d *fakeDispatcher) Heartbeat(_ context.Context, _ agents.Member, b agents.Heartbeat) (agents.Work, error) {
	d.beat = b
	return agents.Work{}, nil
}

func (d *fakeDispatcher) Report(_ context.Context, m agents.Member, r agents.Report) error {
	d.report = r
	return nil
}

// callAs calls a tool as an agent.
func callAs(t *testing.T, d *fakeDispatcher, agentID, name, args string) (string, error) {
	t.Helper()
	cfg := agent.Config{Dispatcher: func() agent.Dispatcher { return d }}
	for _, tool := range agent.Tools(cfg) {
		if tool.Spec().Name != name {
			continue
		}
		assert.True(t, tool.Spec().Direct, name)
		checked, err := tool.Check(json.RawMessage(args))
		if err != nil {
			return "", err
		}
		out, err := tool.Call(t.Context(), &tools.Env{Agent: agentID, Requester: "agent:ada"}, checked)
		return string(out), err
	}
	require.Fail(t, "there is no tool", name)
	return "", nil
}

func TestToolsOfAgents(t *testing.T) {
	t.Parallel()
	d := &fakeDispatcher{}
	ref := work.Ref{Task: "TASK_1", Step: "a", Attempt: 2}
	out, err := callAs(t, d, "agent-1", "AGENT_CLAIM", `{"free":3,"has":[{"task":"TASK_1","step":"a","attempt":2}]}`)
	require.NoError(t, err)
	assert.Equal(t, agents.Claim{Free: 3, Wait: 20 * time.Second, Has: []work.Ref{ref}}, d.claim)
	assert.JSONEq(t, `{"calls":[{"task":"TASK_1","step":"a","attempt":2,"call":"TASK_1/2/a","key":"TASK_1/a","name":"n","title":"t","description":"d",
		"data":{"n":12345678901234567890},"deadline":"2030-01-02T03:04:05Z","left_seconds":90,"lease_seconds":90}],
		"stop":[{"task":"TASK_2","step":"b","attempt":1}]}`, out)
	assert.Contains(t, out, "12345678901234567890", "numbers keep all digits")

	out, err = callAs(t, d, "agent-1", "AGENT_HEARTBEAT", `{"error":"hot","calls":[{"task":"TASK_1","step":"a","attempt":2,"progress":{"done":1,"total":2,"message":"m"}}]}`)
	require.NoError(t, err)
	assert.JSONEq(t, `{"stop":[]}`, out)
	assert.Equal(t, agents.Heartbeat{Error: "hot", Calls: []work.CallHeartbeat{{Ref: ref, Progress: &work.Progress{Done: 1, Total: 2, Message: "m"}}}}, d.beat)

	const named = `"task":"TASK_1","step":"a","attempt":2`
	for args, want := range map[string]agents.Report{
		`"result":{"n":1},"summary":"s"`: {Result: json.RawMessage(`{"n":1}`), Summary: "s"},
		`"summary":"done"`:               {Summary: "done"},
		`"result":false`:                 {Result: json.RawMessage(`false`)},
		`"error":"no"`:                   {Error: "no"},
		`"release":true,"error":"stop"`:  {Release: true, Error: "stop"},
		`"hand_to":{}`:                   {HandTo: &events.Agents{}},
		`"hand_to":{"agent":"bob","type":"analyst","requires":["x"]}`: {HandTo: &events.Agents{Agent: "bob", Type: "analyst", Requires: []string{"x"}}},
	} {
		out, err = callAs(t, d, "agent-1", "AGENT_REPORT", `{`+named+`,`+args+`}`)
		require.NoError(t, err, args)
		assert.JSONEq(t, `{"accepted":true}`, out)
		want.Ref = ref
		assert.Equal(t, want, d.report, args)
	}
	_, err = callAs(t, d, "agent-1", "AGENT_REPORT", `{`+named+`}`)
	assert.Equal(t, fault.RequiredField, fault.CodeOf(err))
	assert.Equal(t, "result", fault.From(err).Field)
}

// The tools act for a registered agent that authenticated with its credential, and for nobody else.
func TestToolsOfAgentsAreForAgents(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{"AGENT_CLAIM": `{}`, "AGENT_HEARTBEAT": `{}`, "AGENT_REPORT": `{"task":"T","step":"a","attempt":1,"result":1}`} {
		_, err := callAs(t, &fakeDispatcher{}, "", name, args)
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err), name)
		assert.Contains(t, fault.From(err).Hint, "onboarding.registerAgent")
		_, err = callAs(t, &fakeDispatcher{}, "agent-2", name, args)
		assert.Equal(t, fault.Unauthorized, fault.CodeOf(err), name)
	}
	_, err := callAs(t, &fakeDispatcher{}, "agent-1", "AGENT_CLAIM", `{"wait_seconds":31}`)
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
	_, err = callAs(t, &fakeDispatcher{}, "agent-1", "AGENT_REPORT", `{"step":"a","attempt":1,"result":1}`)
	assert.Equal(t, fault.RequiredField, fault.CodeOf(err))
}
