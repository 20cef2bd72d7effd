package decide_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// A handoff has a limit, in one turn and over several.
func TestHandoffsEnd(t *testing.T) {
	t.Parallel()
	const call = `HANDOFF {"to":"b","message":"yours"}`
	w := agentWorld(t, "handoff: [b]")
	w.wake()
	for turn := 1; turn <= 4; turn++ {
		w.hears(turn, says("", call)) // there is no TASK_SPAWN here, so each of them fails
	}
	assert.Equal(t, fault.ToolUnavailable, w.task.Steps["a.t3.c1"].Error.Code)
	assert.Equal(t, fault.QuotaExceeded, w.task.Steps["a.t4.c1"].Error.Code)
	assert.Equal(t, statemachine.StepReady, w.task.StepState("a.t5.m"), "the agent goes on itself")

	w = agentWorld(t, "handoff: [b]")
	w.wake()
	w.hears(1, says("", call, call, call, call))
	assert.Equal(t, fault.ToolUnavailable, w.task.Steps["a.t1.c3"].Error.Code)
	assert.Equal(t, fault.QuotaExceeded, w.task.Steps["a.t1.c4"].Error.Code)
}

// A recorded handoff ends the step with the recorded report; another one is refused.
func TestRecordedHandoff(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "handoff: [b], stubs: {calls: [{tool: HANDOFF, args: {to: b, message: yours}, output: {report: done}}]}")
	w.wake()
	w.hears(1, says("", `HANDOFF {"to":"b","message":"mine"}`))
	assert.Equal(t, "NO_STUB", w.task.Steps["a.t1.c1"].Error.Reason)
	assert.Equal(t, "step.succeeded a.t2.m, turn.answered a, step.succeeded a.t2.c1, step.succeeded a, task.finished",
		w.hears(2, says("", `HANDOFF {"to":"b","message":"yours"}`)))
	assert.Contains(t, w.output(), `"text":"done"`)
}
