package orchestrator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

const (
	oneForAgents = "orch: v1\nsteps:\n  - {id: a, tool: AGENT, timeout: 30m}\n"
	waits        = "orch: v1\nsteps:\n  - {id: w, wait: {signal: go}}\n"
)

// hold lets an agent claim one call, and returns it.
func (n *node) hold(agent string) work.Ref {
	n.t.Helper()
	b, err := n.Poll(n.ctx(), work.Poll{Worker: "agent:" + agent, Queues: []string{"agents"}, Free: 1, Wait: time.Minute, Agent: &work.Agent{Name: agent}})
	require.NoError(n.t, err)
	require.Len(n.t, b.Calls, 1)
	ref := b.Calls[0].Ref
	n.began(ref, agent)
	return ref
}

// heldFor makes a request one of an agent for a call.
func heldFor(agent string, ref work.Ref) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.Actor, r.For = "agent:"+agent, &ref }
}

// parentOf returns the parent of a task in its first event.
func (n *node) parentOf(id events.TaskID) *events.Parent {
	n.t.Helper()
	h, err := n.History(n.ctx(), api.HistoryRequest{ID: id, Limit: 1})
	require.NoError(n.t, err)
	first, ok := h.Commits[0].Events[0].Data.(*events.Submitted)
	require.True(n.t, ok)
	return first.Parent
}

// A task that an agent submits for a call belongs to that call. If the agent does not hold the call, the task is refused.
func TestDelegated(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	root := n.submit(oneForAgents)
	ref := n.hold("ada")
	id := n.submit(waits, heldFor("ada", ref))
	assert.Equal(t, &events.Parent{Task: root, Step: "a", Attempt: 1, Level: 1, Requester: "agent:ada"}, n.parentOf(id))
	assert.Equal(t, root, n.get(id).Parent)
	assert.Equal(t, "agent:ada", n.get(id).Requestor)

	other := n.submit(oneForAgents)
	foreign := n.hold("bob")
	for name, change := range map[string]func(*api.SubmitRequest){
		"the call of another agent": heldFor("ada", foreign),
		"no such task":              heldFor("ada", work.Ref{Task: id[:len(id)-1] + "0", Step: "a", Attempt: 1}),
		"another attempt":           heldFor("ada", work.Ref{Task: root, Step: "a", Attempt: 2}),
		"another step":              heldFor("ada", work.Ref{Task: root, Step: "b", Attempt: 1}),
		"no agent":                  func(r *api.SubmitRequest) { r.For = &ref },
	} {
		_, err := n.trySubmit(waits, change)
		require.Equal(t, fault.Forbidden, fault.CodeOf(err), name)
		assert.Equal(t, "CALL_NOT_HELD", fault.From(err).Reason, name)
	}
	assert.NotEmpty(t, other)

	require.NoError(t, n.Report(n.ctx(), work.Outcome{Ref: ref, Worker: "agent:ada", Output: []byte(`{"text":"","n":0}`), StartedAt: time.Now()}))
	assert.Equal(t, statemachine.Done, n.result(root).State)
	_, err := n.trySubmit(waits, heldFor("ada", ref))
	require.Equal(t, fault.Forbidden, fault.CodeOf(err), "it has reported the call")
	assert.False(t, n.get(id).State.Terminal(), "it goes on when its task is done")
}

// An agent with one call need not name it. An agent with none or several submits independent tasks.
func TestDelegatedByDefault(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	assert.Nil(t, n.parentOf(n.submit(waits, as("agent:ada"))))
	root := n.submit(oneForAgents)
	ref := n.hold("ada")
	got := n.parentOf(n.submit(waits, as("agent:ada")))
	require.NotNil(t, got)
	assert.Equal(t, root, got.Task)
	assert.Nil(t, n.parentOf(n.submit(waits, as("agent:bob"))), "it is the call of another one")
	n.submit(oneForAgents)
	n.hold("ada")
	assert.Nil(t, n.parentOf(n.submit(waits, as("agent:ada"))), "nobody knows which one is meant")
	assert.NotNil(t, n.parentOf(n.submit(waits, heldFor("ada", ref))))
}

// A cancellation of the parent reaches delegated tasks at every level, also after a restart.
func TestCancelReachesDelegated(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log, patient)
	root := n.submit(oneForAgents)
	middle := n.submit(oneForAgents, heldFor("ada", n.hold("ada")))
	low := n.submit(waits, heldFor("bob", n.hold("bob")))
	n.stop()
	n = start(t, log, patient)
	_, err := n.Cancel(n.ctx(), api.CancelRequest{ID: root, Actor: "user:test"})
	require.NoError(t, err)
	for _, id := range []events.TaskID{middle, low} {
		assert.Equal(t, statemachine.Cancelled, n.result(id).State)
		assert.Contains(t, n.get(id).Reason, "has stopped")
	}
	n.checkIdle()
}

// A delegated task has the limits of its parent: tools, calls, time.
func TestDelegatedIsBound(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	n.submit("orch: v1\nlimits: {tools: [AGENT, READ], max_steps: 3, deadline: 1h}\nsteps:\n  - {id: a, tool: AGENT, timeout: 10m}\n")
	ref := n.hold("ada")
	_, err := n.trySubmit(guardedPlan, heldFor("ada", ref))
	require.Equal(t, fault.Forbidden, fault.CodeOf(err))
	assert.Contains(t, err.Error(), "not among the tools")

	id := n.submit("orch: v1\nlimits: {deadline: 2h}\nsteps:\n  - {id: r, tool: READ}\n", heldFor("ada", ref))
	view := n.get(id)
	require.NotNil(t, view.Deadline)
	assert.WithinDuration(t, view.CreatedAt.Add(10*time.Minute), *view.Deadline, 5*time.Minute, "the call has 10 minutes")
	r, err := n.Replay(n.ctx(), api.ReplayRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, 2, r.Task.Submitted.MaxSteps, "one of three was made")
	assert.Equal(t, []events.Allow{{}}, r.Task.Submitted.Within)

	n.submit("orch: v1\nlimits: {max_steps: 1}\nsteps:\n  - {id: a, tool: AGENT}\n")
	_, err = n.trySubmit(waits, heldFor("bob", n.hold("bob")))
	assert.Equal(t, fault.QuotaExceeded, fault.CodeOf(err))
}

// The nesting of agent calls is limited. At the lowest level, other calls are still possible.
func TestDelegatedDepth(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	n.submit(oneForAgents)
	ref := n.hold("ada")
	for range 7 {
		n.submit(oneForAgents, heldFor("ada", ref))
		ref = n.hold("ada")
	}
	_, err := n.trySubmit(oneForAgents, heldFor("ada", ref))
	require.Equal(t, fault.QuotaExceeded, fault.CodeOf(err))
	assert.Equal(t, "DEPTH_LIMIT_EXCEEDED", fault.From(err).Reason)
	inSub := "orch: v1\nsteps:\n  - {id: s, run: {" + strings.ReplaceAll("orch: v1, steps: [{id: a, tool: AGENT}]", "\n", "") + "}}\n"
	_, err = n.trySubmit(inSub, heldFor("ada", ref))
	assert.Equal(t, fault.QuotaExceeded, fault.CodeOf(err), "nor does a sub-plan")
	n.submit("orch: v1\nsteps:\n  - {id: r, tool: READ}\n", heldFor("ada", ref))
}

// What was delegated in a batch belongs to its call as well.
func TestDelegatedBatch(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	root := n.submit(oneForAgents)
	ref := n.hold("ada")
	one := api.SubmitRequest{Plan: []byte(`"orch: v1\nsteps:\n  - {id: w, wait: {signal: go}}\n"`), Actor: "agent:ada", For: &ref}
	foreign := one
	foreign.Actor = "agent:bob"
	got, err := n.SubmitBatch(n.ctx(), api.SubmitBatchRequest{Tasks: []api.SubmitRequest{one, foreign}})
	require.NoError(t, err)
	require.Nil(t, got.Tasks[0].Error)
	assert.Equal(t, root, n.parentOf(got.Tasks[0].ID).Task)
	assert.Equal(t, fault.Forbidden, fault.CodeOf(got.Tasks[1].Error))
}

// A tree can be listed from any of its tasks. It starts at the top, and is limited.
func TestTreeOfTasks(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	root := n.submit(oneForAgents)
	middle := n.submit(oneForAgents, heldFor("ada", n.hold("ada")))
	low := n.submit(waits, heldFor("bob", n.hold("bob")))
	n.submit(waits)
	for _, id := range []events.TaskID{root, middle, low} {
		got, err := n.List(n.ctx(), api.ListRequest{Tree: id})
		require.NoError(t, err)
		var ids []events.TaskID
		for _, line := range got.Tasks {
			ids = append(ids, line.ID)
		}
		assert.Equal(t, []events.TaskID{root, middle, low}, ids)
		assert.Zero(t, got.Omitted)
	}
	got, err := n.List(n.ctx(), api.ListRequest{Tree: low, Limit: 2})
	require.NoError(t, err)
	assert.Len(t, got.Tasks, 2)
	assert.Equal(t, 1, got.Omitted)
	assert.Equal(t, root, got.Tasks[0].ID)
	assert.Equal(t, "a", n.get(low).ParentStep)
	_, err = n.List(n.ctx(), api.ListRequest{Tree: low, Cursor: "x"})
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
}
