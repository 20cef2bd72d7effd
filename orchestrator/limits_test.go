package orchestrator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

func limited(limits ...dispatch.Limit) option {
	return func(c *orchestrator.Config) { c.CallLimits = limits }
}

const fourPlan = `
orch: v1
name: four
steps:
  - {id: a, tool: READ, with: {n: 1}}
  - {id: b, tool: READ, with: {n: 2}}
  - {id: c, tool: READ, with: {n: 3}}
  - {id: w, tool: READ2, with: {n: 1}}
`

// A limit of starts lets calls begin when their time has come, to the second, without anybody asking again. Calls that it does not
// bound are not late, attempts count, and explain says what a call waits for.
func TestCallsWaitForTheirLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short, limited(dispatch.Limit{Tool: "READ", Starts: 2, Window: time.Minute}))
		began := time.Now()
		id := n.submit(fourPlan)
		first := []work.Call{n.take("w"), n.take("w"), n.take("w")}
		n.none("w")
		assert.Equal(t, "Step c is ready and waits at least until "+decide.Clock(began.Add(time.Minute).UTC())+
			", because of a limit of the node (call_limits): tool READ, at most 2 within 1m.", n.causeOf(id, "c"))
		for _, c := range first {
			require.NoError(t, n.report("w", c, `{"n":1}`))
		}
		<-time.After(50 * time.Second)
		n.none("w")
		assert.Equal(t, "c", n.take("w").Step, "the poll is answered when the minute is over")
		assert.Equal(t, time.Minute, time.Since(began).Round(time.Second))
		n.stop()
	})
}

// A limit of running calls holds across tasks and a restart: what a worker still holds counts.
func TestRunningCallsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		one := limited(dispatch.Limit{Tool: "READ", Running: 1, By: dispatch.ByIdentity})
		n := start(t, log, short, one)
		id, other := n.submit(readPlan), n.submit(readPlan)
		held := n.take("w")
		require.NoError(t, n.Start(t.Context(), startedBy("w", held)))
		n.none("v")
		waiting := id
		if held.Task == id {
			waiting = other
		}
		assert.Contains(t, n.cause(waiting).Sentence, "is ready and waits until another one has ended, because of a limit of the node (call_limits): tool READ, at most 1 at the same time for each identity.")
		n.stop()
		n = start(t, log, short, one)
		n.none("v")
		require.NoError(t, n.report("w", held, `{"n":1}`))
		c := n.take("v")
		assert.Equal(t, waiting, c.Task)
		require.NoError(t, n.report("v", c, `{"n":1}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		assert.Equal(t, statemachine.Done, n.result(other).State)
		n.checkIdle()
	})
}

// causeOf returns why a step does not move.
func (n *node) causeOf(id events.TaskID, step string) string {
	n.t.Helper()
	e, err := n.Explain(context.Background(), api.GetRequest{ID: id})
	require.NoError(n.t, err)
	for _, c := range e.Causes {
		if c.Step == step {
			return c.Sentence
		}
	}
	return ""
}

// A list says that a task waits for a limit, and a step that gives up blames the limit, not the workers.
func TestLimitIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), limited(dispatch.Limit{Tool: "READ", Running: 1}))
		n.submit("{orch: v1, name: first, steps: [{id: a, tool: READ, heartbeat: 10m}]}")
		held := n.take("w")
		id := n.submit("{orch: v1, name: second, steps: [{id: a, tool: READ, start_within: 20s}]}")
		list, err := n.List(t.Context(), api.ListRequest{Name: "second"})
		require.NoError(t, err)
		assert.Contains(t, list.Tasks[0].Reason, "because of a limit of the node (call_limits): tool READ, at most 1 at the same time.")
		<-time.After(21 * time.Second)
		s := n.step(id, "a")
		require.Equal(t, statemachine.StepFailed, s.State)
		assert.Equal(t, "nobody has taken the call within 20s; it waited for a limit of the node (call_limits): tool READ, at most 1 at the same time", s.Error.Message)
		require.NoError(t, n.report("w", held, `{"n":1}`))
		n.stop()
	})
}
