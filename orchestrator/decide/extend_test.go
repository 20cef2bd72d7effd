package decide_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// When an answer was lost and the rest of the budget does not suffice to repeat the request, a person decides.
func TestAgentAsksForMoreAfterLostAnswer(t *testing.T) {
	t.Parallel()
	begin := func() *world {
		w := agentWorld(t, "max_tokens: 1000, budget: {tokens: 4000, on_exceeded: ask}")
		w.wake()
		assert.Equal(t, "turn.lost a, step.retrying a.t1.m", w.hears(1, work.Outcome{Class: fault.ClassTransport, Error: fault.New(fault.NetworkError, "the stream broke")}))
		w.now = w.now.Add(time.Minute)
		return w
	}
	const asked = "approval.requested a.b1, task.approval_requested, step.parked a.b1"
	decided := func(w *world, as string) string {
		require.Equal(t, asked, w.wake())
		assert.Empty(t, w.wake(), "it is asked once")
		assert.Contains(t, w.task.Approvals[0].Rationale, "more than 4000")
		return w.decide(func(t *decide.Turn) error {
			return t.Approvals().DecideApproval(w.task.Approvals[0], api.DecideRequest{As: as, Actor: "user:ada", Reason: "why not"}, nil)
		})
	}
	w := begin()
	assert.Equal(t, "approval.granted, step.succeeded a.b1, task.approved, agent.extended a, step.ready a.t1.m", decided(w, "granted"))
	assert.Greater(t, w.task.Steps["a"].Agent.Spec.Limit.Tokens, int64(4000))
	assert.Equal(t, "step.succeeded a.t1.m, turn.answered a, step.succeeded a, task.finished", w.hears(1, says("Here.")))

	w = begin()
	assert.Equal(t, "approval.rejected, step.failed a.b1, task.declined, step.failed a.t1.m, step.failed a, task.ending, task.failed", decided(w, "rejected"))
	assert.Contains(t, w.task.Steps["a"].Error.Hint, "why not")

	w = begin()
	w.decide(func(t *decide.Turn) error { t.Emit(events.TaskPaused, &events.Paused{}); return nil })
	assert.Empty(t, w.wake(), "nobody is asked while the task is paused")
	assert.Equal(t, "task.resumed, "+asked, w.decide(func(t *decide.Turn) error { t.Emit(events.TaskResumed, &events.Paused{}); return nil }))
	w.decide(func(t *decide.Turn) error { t.Cancel("enough"); return nil })
	assert.Equal(t, statemachine.Cancelled, w.task.State)
}
