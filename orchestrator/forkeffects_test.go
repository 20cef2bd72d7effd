package orchestrator_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// This file tests that a fork repeats no effect silently, wherever the effect is recorded.

// refusedFork requires that a fork is refused because it would repeat effects.
func (n *node) refusedFork(r api.ForkRequest) {
	n.t.Helper()
	_, err := n.Fork(n.ctx(), r)
	require.Error(n.t, err)
	assert.Equal(n.t, api.ReasonRepeats, fault.From(err).Reason)
}

// forked forks a task, waits for the end of the fork, and returns its id.
func (n *node) forked(r api.ForkRequest) events.TaskID {
	n.t.Helper()
	reply, err := n.Fork(n.ctx(), r)
	require.NoError(n.t, err)
	n.result(reply.ID)
	return reply.ID
}

// What checks and ends a task runs in each fork.
func TestForkAsksForEffectsOfAlways(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(echoArgs)
	id := n.submit("orch: v1\nsteps:\n  - {id: a, tool: READ}\nalways:\n  - {id: tell, tool: WRITE2}\n")
	n.result(id)
	n.refusedFork(api.ForkRequest{ID: id})
	n.forked(api.ForkRequest{ID: id, Repeat: []string{"tell"}})
}

// The calls of the items of a for_each were made by the task whose result an earlier fork has reused.
func TestForkAsksForEffectsOfReusedLoops(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(echoArgs)
	id := n.submit(`
orch: v1
steps:
  - id: each
    for_each: "[1, 2]"
    do: [{id: w, tool: WRITE, with: {n: "${{ item }}"}}]
  - {id: end, tool: READ, needs: [each]}
`)
	n.result(id)
	n.refusedFork(api.ForkRequest{ID: id, At: "each"})
	first := n.forked(api.ForkRequest{ID: id, At: "end"})
	n.refusedFork(api.ForkRequest{ID: first, At: "each"})
}

// So were those of a sub-plan.
func TestForkAsksForEffectsOfReusedSubPlans(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(echoArgs)
	id := n.submit(`
orch: v1
steps:
  - {id: sub, run: {orch: v1, steps: [{id: w, tool: WRITE2}]}}
  - {id: end, tool: READ, needs: [sub]}
`)
	n.result(id)
	first := n.forked(api.ForkRequest{ID: id, At: "end"})
	n.refusedFork(api.ForkRequest{ID: first, At: "sub"})
}

// An earlier attempt may have had its effect, although the newest one has not begun.
func TestForkAsksForEffectsOfEarlierAttempts(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps:\n  - {id: a, tool: WRITE, retry: {max_attempts: 3, initial: 1ms, on: [tool_error]}}\n")
	c := n.take("w")
	require.NoError(t, n.Start(t.Context(), startedBy("w", c)))
	require.NoError(t, n.fail("w", c, "tool_error"))
	require.Equal(t, 2, n.take("w").Attempt)
	n.refusedFork(api.ForkRequest{ID: id})
}

// A call that a gate has refused had no effect, so it is not asked about.
func TestForkDoesNotAskForRefusedCalls(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps:\n  - {id: a, tool: WRITE}\n")
	require.NoError(t, n.fail("w", n.take("w"), "denied"))
	require.Equal(t, statemachine.Failed, n.result(id).State)
	n.serve(echoArgs)
	n.forked(api.ForkRequest{ID: id})
}
