package orchestrator_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/statemachine"
)

// A task that has failed says which task continues it, also if that is the retry of a retry, and how that one stands.
func TestExplainOfARetriedTask(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nightly", "a*b[c]\\?", ""} {
		n := start(t, memlog.New(memlog.Config{}))
		plan := "orch: v1\nname: '" + name + "'\nsteps:\n  - {id: a, tool: WRITE}\n"
		if name == "" {
			plan = "orch: v1\nsteps:\n  - {id: a, tool: WRITE}\n"
		}
		fails := func(id events.TaskID) {
			t.Helper()
			require.NoError(t, n.fail("w", n.take("w"), "denied"))
			n.result(id)
		}
		id := n.submit(plan)
		fails(id)
		other := n.submit(plan)
		fails(other)
		assert.Nil(t, continuation(n, id), "another task with the same name continues nothing")

		retry, err := n.Retry(n.ctx(), api.RetryRequest{ID: id})
		require.NoError(t, err)
		next := continuation(n, id)
		require.NotNil(t, next, name)
		assert.Equal(t, retry.ID, next.Task)
		assert.Equal(t, "The newest retry of it is "+string(n.get(retry.ID).State)+": "+string(retry.ID)+".", next.Sentence)
		fails(retry.ID)
		fork, err := n.Fork(n.ctx(), api.ForkRequest{ID: retry.ID, At: "a"})
		require.NoError(t, err)
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		n.result(fork.ID)
		reply, err := n.Explain(n.ctx(), api.GetRequest{ID: id})
		require.NoError(t, err)
		require.Len(t, reply.Continued, 2)
		assert.Equal(t, []events.TaskID{retry.ID, fork.ID, id, retry.ID}, []events.TaskID{reply.Continued[0].Task, reply.Continued[1].Task, reply.Continued[0].From, reply.Continued[1].From})
		assert.Equal(t, []string{"retry FAILED", "fork DONE"}, []string{
			reply.Continued[0].How + " " + string(reply.Continued[0].State), reply.Continued[1].How + " " + string(reply.Continued[1].State),
		})
		for _, of := range []events.TaskID{id, retry.ID} {
			next = continuation(n, of)
			require.NotNil(t, next, "%q %s: %s %s %s", name, of, id, retry.ID, fork.ID)
			assert.Equal(t, "The newest fork of it is DONE: "+string(fork.ID)+".", next.Sentence)
		}
		assert.Nil(t, continuation(n, other))
		assert.Nil(t, continuation(n, fork.ID), string(statemachine.Done))
	}
}

// continuation returns the cause of kind continued of a task; nil for none.
func continuation(n *node, id events.TaskID) *api.Cause {
	n.t.Helper()
	reply, err := n.Explain(n.ctx(), api.GetRequest{ID: id})
	require.NoError(n.t, err)
	for _, c := range reply.Causes {
		if c.Kind == "continued" {
			return &c
		}
	}
	return nil
}
