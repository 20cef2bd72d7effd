package orchestrator_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// A call is repeated, whatever its effect, until its result is as awaited. A failure in between counts in its round.
func TestUntil(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	attempts := map[string]int{}
	up := countUp(attempts)
	n.serve(func(c work.Call) (string, *fault.Error) {
		out, err := up(c)
		if made := attempts["breaks"]; c.Step == "breaks" && made%2 == 1 {
			return "", fault.New(fault.ExecFailed, "the network is gone")
		}
		return out, err
	})
	id := n.submit(`
orch: v1
steps:
  - {id: third, tool: WRITE, with: {text: third}, until: output.n == 3, max_rounds: 5, delay: 1ms}
  - {id: never, tool: WRITE, with: {text: never}, until: output.n < 0, max_rounds: 4, delay: 1ms, on_error: continue}
  - {id: counts, tool: WRITE, with: {text: counts}, until: round == 2, max_rounds: 4, delay: 1ms}
  - {id: wrong, tool: WRITE, with: {text: wrong}, until: output.n.x, max_rounds: 4, delay: 1ms, on_error: continue}
  - {id: breaks, tool: WRITE, with: {text: breaks}, until: output.n == 6, max_rounds: 3, delay: 1ms, retry: {max_attempts: 2, initial: 1ms}}
  - id: each
    for_each: '["x", "y"]'
    do: [{id: call, tool: WRITE, with: {text: "${{ item }}"}, until: output.n == 2, max_rounds: 2, delay: 1ms}]
outputs: {third: "${{ steps.third.output.n }}", never: "${{ steps.never.error.message }}", each: "${{ steps.each.output[1].call.n }}"}
`)
	reply := n.result(id)
	require.Equal(t, statemachine.Done, reply.State, "%v", reply.Error)
	assert.JSONEq(t, `{"third":3,"each":2,"never":"after 4 rounds the result is still not as awaited: output.n < 0, but output.n is 4"}`, string(reply.Output))
	assert.Equal(t, map[string]int{"third": 3, "never": 4, "counts": 2, "wrong": 1, "breaks": 6, "x": 2, "y": 2}, attempts)
	assert.Equal(t, 2, n.step(id, "third").Rounds)
	never := n.step(id, "never")
	assert.Equal(t, fault.ToolFailed, never.Error.Code)
	assert.Equal(t, "ROUNDS_EXHAUSTED", never.Error.Reason)
	assert.Equal(t, fault.ValidationError, n.step(id, "wrong").Error.Code)
}

// The delay between two rounds and the count of rounds survive a restart.
func TestUntilOverRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log)
		id := n.submit("orch: v1\nsteps: [{id: a, tool: WRITE, until: output.n == 1, max_rounds: 3, delay: 10m}]\n")
		began := time.Now()
		call := n.take("w")
		require.NoError(t, n.report("w", call, `{"n":0}`))
		require.NoError(t, n.report("w", call, `{"n":0}`), "it is only told again")
		cause := n.cause(id)
		assert.Equal(t, "retry", cause.Kind)
		assert.Contains(t, cause.Sentence, "its result was not as awaited in round 1")
		<-time.After(4 * time.Minute)
		n.stop()
		n = start(t, log)
		for round := 2; round <= 3; round++ {
			n.none("w")
			call = n.untilCall("w")
			assert.Equal(t, time.Duration(round-1)*10*time.Minute, time.Since(began).Truncate(time.Minute))
			require.NoError(t, n.report("w", call, fmt.Sprintf(`{"n":%d}`, round-2)))
		}
		reply := n.result(id)
		require.Equal(t, statemachine.Done, reply.State)
		n.stop()
	})
}

// untilCall polls until there is a call.
func (n *node) untilCall(worker string) work.Call {
	n.t.Helper()
	for {
		if calls := n.polls(worker, time.Minute); len(calls) > 0 {
			return calls[0]
		}
	}
}

// One grant is valid for all rounds of a call.
func TestUntilKeepsTheGrant(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps: [{id: a, tool: WRITE, until: round == 3, max_rounds: 3, delay: 1ms}]\n")
	n.park("w", n.take("w"), ask())
	_, err := n.decide(n.pending().ID, "granted", "user:ada")
	require.NoError(t, err)
	for range 3 {
		call := n.take("w")
		require.NotNil(t, call.Grant)
		require.NoError(t, n.Start(n.ctx(), startedBy("w", call)))
		require.NoError(t, n.report("w", call, `{}`))
	}
	assert.Equal(t, statemachine.Done, n.result(id).State)
}
