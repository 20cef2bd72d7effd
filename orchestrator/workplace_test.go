package orchestrator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

func (n *node) workplace(id events.TaskID) orchestrator.Workplace {
	n.t.Helper()
	place, err := n.Workplace(n.ctx(), id)
	require.NoError(n.t, err)
	return place
}

// A task works in its own workspace. Its tools are those of the calls that have begun.
func TestWorkplace(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Secrets = []string{"env:DB_*"} })
	id := n.submit("orch: v1\nsteps: [{id: a, tool: WRITE, with: {text: x}}, {id: b, needs: [a], tool: READ, with: {text: y}}]\n")
	place := n.workplace(id)
	assert.Equal(t, orchestrator.Workplace{Task: id, Requester: "user:test", State: statemachine.NeedsAction, Secrets: map[string]string{}}, place)
	c := n.take("w")
	require.NoError(t, n.Start(n.ctx(), startedBy("w", c)))
	place = n.workplace(id)
	assert.Equal(t, []string{"WRITE"}, place.Tools)
	assert.Equal(t, []string{"w"}, place.Workers)
	require.NoError(t, n.report("w", c, `{"n":1}`))
	require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
	place = n.workplace(id)
	assert.Equal(t, []string{"READ", "WRITE"}, place.Tools)
	assert.False(t, place.Ended.IsZero())
	_, err := n.Workplace(n.ctx(), "TASK_01KE0000000000000000000000")
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
}

// Calls of a session, and of the parts of a loop, work in a workspace that they share.
func TestSharedWorkplaces(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), inParts(1))
	const plan = "orch: v1\nsteps: [{id: each, for_each: '1..2', do: [{id: a, tool: READ, with: {text: x}}]}]\n"
	session := events.NewTaskID(time.Now())
	_, err := n.Submit(n.ctx(), api.SubmitRequest{Plan: api.SessionPlan(time.Hour), ID: session, Session: session, Actor: "user:test"})
	require.NoError(t, err)
	assert.True(t, n.workplace(session).Session)
	for _, within := range []events.TaskID{"", session} {
		id := n.submit(plan, func(r *api.SubmitRequest) { r.Session, r.Shares = within, within != "" })
		home := id
		if within != "" {
			home = within
		}
		for range 2 {
			c := n.take("w")
			place := n.workplace(c.Task)
			assert.Equal(t, []any{home, "user:test"}, []any{place.Task, place.Requester})
			require.NoError(t, n.report("w", c, `{"n":1}`))
		}
		require.Equal(t, statemachine.Done, n.result(id).State)
		place := n.workplace(id)
		assert.Equal(t, []any{home, true}, []any{place.Task, place.Parts})
	}
}
