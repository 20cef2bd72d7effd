package orchestrator_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// An unexpected result is a failure. It is retried as the plan says, whatever the effect of the call, and counts for on_error
// and on_item_error.
func TestUnexpectedResult(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	attempts := map[string]int{}
	n.serve(countUp(attempts))
	id := n.submit(`
orch: v1
steps:
  - id: flaky
    tool: WRITE
    with: {text: flaky}
    expect: output.n == 3
    retry: {on: [unexpected], max_attempts: 5, initial: 1ms}
  - id: narrowed
    tool: WRITE
    with: {text: narrowed}
    expect: output.n == 5
    retry: {max_attempts: 5, initial: 1ms, when: output.n < 2}
    on_error: continue
  - id: once
    tool: WRITE
    with: {text: once}
    expect: output.n == 2
    on_error: continue
  - id: wrong
    tool: WRITE
    with: {text: wrong}
    expect: output.n.x > 1
    on_error: continue
  - id: each
    for_each: '["good", "bad"]'
    as: name
    on_item_error: continue
    do: [{id: call, tool: WRITE, with: {text: "${{ name }}"}, expect: 'output["na" + "me"] == "good"'}]
outputs: {flaky: "${{ steps.flaky.output.n }}", once: "${{ steps.once.error.message }}", seen: "${{ steps.once.output ?? 'nothing' }}"}
`)
	reply := n.result(id)
	require.Equal(t, statemachine.Done, reply.State, "%v", reply.Error)
	assert.JSONEq(t, `{"flaky":3,"once":"the result is not as expected: output.n == 2, but output.n is 1","seen":"nothing"}`, string(reply.Output))
	assert.Equal(t, map[string]int{"flaky": 3, "narrowed": 2, "once": 1, "wrong": 1, "good": 1, "bad": 1}, attempts)
	once := n.step(id, "once")
	assert.Equal(t, statemachine.StepFailed, once.State)
	assert.Equal(t, fault.ToolFailed, once.Error.Code)
	assert.JSONEq(t, `{"name":"once","n":1}`, string(once.Output), "the refused result stays readable")
	assert.JSONEq(t, `{"name":"flaky","n":3}`, string(n.step(id, "flaky").Output))
	assert.JSONEq(t, `{"name":"narrowed","n":2}`, string(n.step(id, "narrowed").Output))
	assert.Equal(t, fault.ValidationError, n.step(id, "wrong").Error.Code)
	assert.Equal(t, statemachine.StepFailed, n.step(id, "each[1].call").State)
	n.checkReplay(id)
}

// countUp answers with the name of a call, and how often it was made.
func countUp(made map[string]int) func(work.Call) (string, *fault.Error) {
	return func(c work.Call) (string, *fault.Error) {
		var in struct{ Text string }
		_ = json.Unmarshal(c.Args, &in) // an empty name is seen in the result
		made[in.Text]++
		return fmt.Sprintf(`{"name":%q,"n":%d}`, in.Text, made[in.Text]), nil
	}
}

// A repeated report of an unexpected result is not refused as too late.
func TestUnexpectedResultToldAgain(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps: [{id: a, tool: WRITE, with: {}, expect: 'output.n == 1'}]\n")
	call := n.take("w")
	require.NoError(t, n.report("w", call, `{"n":2}`))
	require.Equal(t, statemachine.Failed, n.result(id).State)
	require.NoError(t, n.report("w", call, `{"n":2}`))
}
