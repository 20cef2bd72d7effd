package orchestrator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// The calls of a lost answer are dispatched again with the next poll, as the same attempt. Nobody has started them, and nobody
// waits for the lease to expire.
func TestLostAnswerToAPoll(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	id := n.submit(onePlan)
	ask := func(got uint64) work.Batch {
		b, err := n.Poll(n.ctx(), work.Poll{Worker: "w", Free: 4, LastBatch: got})
		require.NoError(t, err)
		return b
	}
	lost := ask(1)
	require.Len(t, lost.Calls, 1)
	again := ask(1)
	require.Len(t, again.Calls, 1)
	assert.Equal(t, lost.Calls[0].Ref, again.Calls[0].Ref)
	assert.Greater(t, again.Number, lost.Number)
	assert.Empty(t, ask(again.Number).Calls, "this one was received")
	assert.Empty(t, ask(again.Number).Calls)
	require.NoError(t, n.report("w", *again.Calls[0], `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
	n.checkIdle()
}

// A call that its worker has started is never considered lost with an answer.
func TestBegunCallIsNotHandedOutAgain(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	id := n.submit(writePlan)
	b, err := n.Poll(n.ctx(), work.Poll{Worker: "w", Free: 1, LastBatch: 1})
	require.NoError(t, err)
	require.Len(t, b.Calls, 1)
	require.NoError(t, n.Start(n.ctx(), startedBy("w", *b.Calls[0])))
	b2, err := n.Poll(n.ctx(), work.Poll{Worker: "w", Free: 1, LastBatch: 1})
	require.NoError(t, err)
	assert.Empty(t, b2.Calls)
	assert.Equal(t, statemachine.StepRunning, n.step(id, "a").State)
	require.NoError(t, n.report("w", *b.Calls[0], `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// A call that cannot be sent for a moment costs no attempt.
func TestUndeliveredCallCostsNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		g := &gate{Log: log, open: make(chan struct{}), fails: 3}
		close(g.open)
		n := start(t, log, func(c *orchestrator.Config) { c.Blobs = g })
		id := n.submit(readOf("${{ inputs.x }}"), big(t, "x", 100<<10))
		var calls []work.Call
		for range 10 {
			if calls = n.polls("w", 20*time.Second); len(calls) > 0 {
				break
			}
		}
		require.Len(t, calls, 1)
		assert.Equal(t, 1, calls[0].Attempt)
		assert.Zero(t, n.step(id, "a").Lost)
		require.NoError(t, n.report("w", calls[0], `{}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.checkIdle()
	})
}

// A read whose delivery may have killed the node is announced, so that the next such end counts. A call that kills the node of
// its worker uses up its deliveries like any other.
func TestCallThatKillsItsNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		var id events.TaskID
		deliveries := 0
		for life := 0; ; life++ {
			n := start(t, log, short)
			if life == 0 {
				id = n.submit(onePlan)
			}
			require.Less(t, life, 20)
			calls := n.polls("w", 10*time.Second)
			if len(calls) == 0 {
				r := n.result(id)
				require.Equal(t, statemachine.Failed, r.State)
				assert.Equal(t, fault.WorkerLost, r.Error.Code)
				n.stop()
				break
			}
			deliveries++
			assert.Equal(t, life > 0, calls[0].Announce)
			if calls[0].Announce {
				require.NoError(t, n.Start(context.Background(), startedBy("w", calls[0])))
			}
			n.stop() // the call ends the node
			<-time.After(time.Millisecond)
		}
		assert.Equal(t, 4, deliveries, "the first one was not known of")
	})
}
