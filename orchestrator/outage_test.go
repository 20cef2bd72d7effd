package orchestrator_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// These cases were found by the simulation (test/sim): the log fails at an awkward moment, then it recovers, and everything
// must continue by itself.

const keyedWait = "orch: v1\nconcurrency: {key: k}\nsteps: [{id: g, wait: {signal: go}}]\n"

func (n *node) signal(id events.TaskID) {
	n.t.Helper()
	_, err := n.Signal(context.Background(), api.SignalRequest{ID: id, Name: "go"})
	require.NoError(n.t, err)
}

// A start whose append was abandoned may still reach the log. The task keeps the key.
func TestLateBeginningKeepsItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Pointer[events.Record]
		log := memlog.New(memlog.Config{Fail: func(r *events.Record) error {
			if r.Task == events.KeyedTaskID("", "late") && r.Rev == 2 && late.CompareAndSwap(nil, r) {
				return gone()
			}
			return nil
		}})
		n := start(t, log, short)
		first := n.submit(keyedWait, keyed("late"), func(r *api.SubmitRequest) { r.Delay = time.Second })
		<-time.After(1100 * time.Millisecond)
		require.NotNil(t, late.Load())
		second := n.submit(keyedWait)
		log.Append(*late.Load(), func(_ uint64, err error) { assert.NoError(t, err) })
		<-time.After(3 * time.Second)
		assert.Equal(t, statemachine.InProgress, n.get(first).State)
		assert.Equal(t, "concurrency", n.cause(second).Kind)
		n.signal(first)
		n.result(first)
		n.signal(second)
		n.result(second)
	})
}

// After a restart nobody acquires a key while a task that may hold it cannot be read.
func TestKeyOfAnUnreadTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := &flakyRead{Log: memlog.New(memlog.Config{})}
		use := func(c *orchestrator.Config) { c.Log = bad }
		n := start(t, bad.Log, use)
		holder := n.submit(keyedWait)
		n.stop()
		bad.away.Store(true)
		n = start(t, bad.Log, use)
		second := n.submit(keyedWait)
		assert.Contains(t, n.cause(second).Sentence, "cannot be read")
		bad.away.Store(false)
		<-time.After(3 * time.Second)
		assert.Equal(t, statemachine.InProgress, n.get(holder).State)
		assert.Contains(t, n.cause(second).Sentence, "is held by")
		n.signal(holder)
		n.result(holder)
		n.signal(second)
		n.result(second)
	})
}

// A parent is notified of its child's end although the answer for the end was lost and the log then could not be read.
func TestEndOfAnUnreadTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lose atomic.Bool
		bad := &flakyRead{Log: memlog.New(memlog.Config{LoseAnswer: func(*events.Record) error {
			if lose.CompareAndSwap(true, false) {
				return gone()
			}
			return nil
		}})}
		n := start(t, bad.Log, short, func(c *orchestrator.Config) { c.Log = bad })
		parent := n.submit("orch: v1\nsteps: [{id: p, run: {orch: v1, concurrency: {key: k}, steps: [{id: r, tool: READ}]}}]\n")
		synctest.Wait()
		c := n.take("w")
		lose.Store(true)
		bad.away.Store(true)
		require.Error(t, n.report("w", c, `{}`))
		<-time.After(2 * time.Second)
		bad.away.Store(false)
		<-time.After(3 * time.Second)
		assert.Equal(t, statemachine.Done, n.get(parent).State)
		n.checkIdle()
	})
}

// A child that could be neither written nor looked up is started later.
func TestChildAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := &flakyRead{Log: memlog.New(memlog.Config{})}
		n := start(t, bad.Log, short, func(c *orchestrator.Config) { c.Log = bad })
		parent := n.submit("orch: v1\nsteps: [{id: g, wait: {signal: go}}, {id: p, needs: [g], run: {orch: v1, steps: [{id: s, set: {x: 1}}]}}]\n")
		bad.away.Store(true)
		n.signal(parent)
		<-time.After(2500 * time.Millisecond) // the second lookup of the child fails as well
		bad.away.Store(false)
		<-time.After(5 * time.Second)
		assert.Equal(t, statemachine.Done, n.get(parent).State)
	})
}

// Reading a finished task makes no call: a call that no worker held when the node stopped is cancelled.
func TestLookingMakesNoCall(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	id := n.submit("orch: v1\nsteps: [{id: s, set: {x: 1}}]\n")
	n.result(id)
	call, err := n.Call(context.Background(), api.CallRequest{ID: id, Tool: "WRITE2"})
	require.NoError(t, err)
	require.Equal(t, statemachine.StepReady, call.State)
	n.stop()
	n = start(t, log)
	n.get(id)
	n.none("w")
	require.Eventually(t, func() bool { return n.step(id, call.Step).State == statemachine.StepCancelled }, time.Minute, time.Millisecond)
}

// A single call in a task that waits for its key does not make the task a holder of the key.
func TestSingleCallTakesNoKey(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	holder, second := n.submit(keyedWait), n.submit(keyedWait)
	_, err := n.Call(context.Background(), api.CallRequest{ID: second, Tool: "READ"})
	require.NoError(t, err)
	n.stop()
	n = start(t, log)
	b, err := n.Poll(context.Background(), work.Poll{Worker: "w", Free: 1, Wait: time.Minute})
	require.NoError(t, err)
	require.Len(t, b.Calls, 1)
	require.NoError(t, n.report("w", *b.Calls[0], `{}`))
	assert.Equal(t, statemachine.NeedsAction, n.get(second).State)
	n.signal(holder)
	n.result(holder)
	require.Eventually(t, func() bool { return n.get(second).State == statemachine.InProgress }, time.Minute, time.Millisecond)
}

// A call whose start was abandoned, that was dispatched to another worker, and then found to have been started, belongs to the
// first worker. If that worker is silent, the call is in doubt.
func TestLateStartOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Pointer[events.Record]
		bad := &flakyRead{Log: memlog.New(memlog.Config{Fail: func(r *events.Record) error {
			if r.Rev == 2 && late.CompareAndSwap(nil, r) {
				return gone()
			}
			return nil
		}})}
		n := start(t, bad.Log, short, func(c *orchestrator.Config) { c.Log = bad })
		id := n.submit(writePlan)
		c := n.take("a")
		bad.away.Store(true)
		require.Error(t, n.Start(context.Background(), startedBy("a", c)))
		synctest.Wait()
		bad.away.Store(false)
		<-time.After(1500 * time.Millisecond)
		again := n.take("b")
		require.Equal(t, c.Ref, again.Ref)
		bad.Append(*late.Load(), func(_ uint64, err error) { assert.NoError(t, err) })
		require.Error(t, n.Start(context.Background(), startedBy("b", again)))
		<-time.After(3 * time.Second)
		assert.Equal(t, "in_doubt", n.cause(id).Kind)
	})
}

// A timer that has fired fires again if the clock is set back before it.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
			c.Clock = func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
		})
		delayed := n.submit("orch: v1\nsteps: [{id: s, set: {x: 1}}]\n", func(r *api.SubmitRequest) { r.Delay = 2 * time.Second })
		waits := n.submit("orch: v1\nsteps: [{id: s, wait: {for: 2s}}]\n")
		for _, id := range []events.TaskID{delayed, waits} {
			n.pause(api.PauseRequest{ID: id})
		}
		<-time.After(3 * time.Second)
		back.Store(int64(3 * time.Second))
		for _, id := range []events.TaskID{delayed, waits} {
			n.resume(api.PauseRequest{ID: id})
		}
		<-time.After(5 * time.Second)
		assert.Equal(t, statemachine.Done, n.get(delayed).State)
		assert.Equal(t, statemachine.Done, n.get(waits).State)
	})
}

// A single call with effects that runs when its task ends is in doubt if its worker is lost.
func TestSingleCallOutlivesItsTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit("orch: v1\nsteps: [{id: g, wait: {signal: go}}]\n")
		call, err := n.Call(context.Background(), api.CallRequest{ID: id, Tool: "WRITE2"})
		require.NoError(t, err)
		c := n.take("w")
		require.NoError(t, n.Start(context.Background(), startedBy("w", c)))
		n.signal(id)
		n.result(id)
		<-time.After(3 * time.Second)
		assert.Equal(t, statemachine.StepInDoubt, n.step(id, call.Step).State)
		n.checkIdle()
	})
}

// Clients that wait for the end of a task are notified even if the answer for the last commit was lost.
func TestWaitersHearOfAnUnansweredEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &indexed{Log: memlog.New(memlog.Config{})}
		log.lose = func(r events.Record) bool { return r.State == string(statemachine.Done) }
		n := startIndexed(t, log)
		id := n.submit("orch: v1\nsteps: [{id: nap, wait: {for: 10s}}]\n")
		seen := n.get(id).Rev
		news := make(chan time.Duration, 2)
		began := time.Now()
		go func() {
			r, err := n.Result(context.Background(), api.ResultRequest{ID: id, Wait: 50 * time.Second})
			assert.NoError(t, err)
			assert.True(t, r.Ended)
			news <- time.Since(began)
		}()
		go func() {
			_, err := n.Watch(context.Background(), api.WatchRequest{ID: id, After: seen, Wait: 50 * time.Second})
			assert.NoError(t, err)
			news <- time.Since(began)
		}()
		for range 2 {
			assert.Less(t, <-news, 15*time.Second)
		}
	})
}
