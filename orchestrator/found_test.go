package orchestrator_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// slow delays each answer of the log.
func slow(*events.Record) time.Duration { return 5 * time.Millisecond }

// A delay may end before the log has answered.
func TestDelayThatPassesBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{Delay: slow}))
		id := n.submit(onePlan, func(r *api.SubmitRequest) { r.Delay = 2 * time.Millisecond })
		n.serve(echoArgs)
		r, err := n.Result(context.Background(), api.ResultRequest{ID: id, Wait: 50 * time.Second})
		require.NoError(t, err)
		assert.True(t, r.Ended)
	})
}

// A timer may be due while the previous commit is being written.
func TestTimersAlmostAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{Delay: slow}))
		id := n.submit("orch: v1\nsteps:\n  - {id: a, wait: {for: 1s}}\n  - {id: b, wait: {for: 1002ms}}\n")
		r, err := n.Result(context.Background(), api.ResultRequest{ID: id, Wait: 50 * time.Second})
		require.NoError(t, err)
		assert.True(t, r.Ended)
	})
}

// A stopping worker also returns a verify call.
func TestVerifyCallIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(verifiedPlan)
		c := n.take("w")
		require.NoError(t, n.Start(context.Background(), startedBy("w", c)))
		<-time.After(3 * time.Second)
		require.NoError(t, n.fail("v", n.take("v"), "shutdown"))
		b := n.poll("v2", 1)
		<-time.After(time.Minute)
		assert.True(t, len(b.Calls) == 1 || n.get(id).State == statemachine.Blocked)
	})
}

// A stopping worker also returns a single call.
func TestSingleCallIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(onePlan)
		n.take("w")
		got := make(chan api.CallReply, 1)
		go func() {
			r, _ := n.Call(context.Background(), api.CallRequest{ID: id, Tool: "READ2", Args: json.RawMessage(`{}`), Wait: 30 * time.Second})
			got <- r
		}()
		c := n.take("v")
		require.Equal(t, "READ2", c.Tool)
		require.NoError(t, n.fail("v", c, "shutdown"))
		c = n.take("v")
		require.Equal(t, "READ2", c.Tool)
		require.NoError(t, n.report("v", c, `{}`))
		assert.Equal(t, statemachine.StepSucceeded, (<-got).State)
	})
}

// A call in doubt inside a for_each is not repeated without a decision.
func TestRetryKeepsADoubtfulItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit("orch: v1\nsteps:\n  - id: each\n    for_each: \"${{ [1] }}\"\n    do:\n      - {id: a, tool: WRITE}\n")
		require.NoError(t, n.Start(context.Background(), startedBy("w", n.take("w"))))
		<-time.After(3 * time.Second)
		require.NoError(t, n.cancel(id))
		_, err := n.Retry(context.Background(), api.RetryRequest{ID: id})
		hasCode(t, err, fault.InDoubt)
	})
}

// A write that was cancelled while it ran may have happened.
func TestRetryKeepsACancelledWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(writePlan)
		require.NoError(t, n.Start(context.Background(), startedBy("w", n.take("w"))))
		require.NoError(t, n.cancel(id))
		_, err := n.Retry(context.Background(), api.RetryRequest{ID: id})
		hasCode(t, err, fault.InDoubt)
	})
}

type badRead struct {
	*memlog.Log
	bad atomic.Bool
}

func (b *badRead) Read(ctx context.Context, id events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	if b.bad.Load() {
		return func(yield func(events.Stored, error) bool) {
			yield(events.Stored{}, fault.New(fault.Unavailable, "away"))
		}
	}
	return b.Log.Read(ctx, id, from)
}

// A concurrency key is released if the first append and the read of the log have failed.
func TestKeyOfATaskThatNeverBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := &badRead{}
		bad.Log = memlog.New(memlog.Config{Fail: func(*events.Record) error {
			if bad.bad.Load() {
				return fault.New(fault.Unavailable, "away")
			}
			return nil
		}})
		n := start(t, bad.Log, func(c *orchestrator.Config) { c.Log = bad })
		bad.bad.Store(true)
		_, err := n.trySubmit(keyPlan("queue"))
		hasCode(t, err, fault.Unavailable)
		<-time.After(500 * time.Millisecond)
		bad.bad.Store(false)
		<-time.After(10 * time.Second)
		second := n.submit(keyPlan("queue"))
		n.serve(echoArgs)
		r, err := n.Result(context.Background(), api.ResultRequest{ID: second, Wait: 50 * time.Second})
		require.NoError(t, err)
		assert.True(t, r.Ended)
	})
}

// A finished task that could not be read leaves no timer behind once it is read.
func TestReadAgainAfterItsEnd(t *testing.T) {
	t.Parallel()
	bad := &badRead{Log: memlog.New(memlog.Config{})}
	n := start(t, bad.Log)
	id := n.submit(onePlan)
	require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
	n.result(id)
	n.stop()
	n = start(t, bad.Log, func(c *orchestrator.Config) { c.Log = bad })
	bad.bad.Store(true)
	_, err := n.Get(context.Background(), api.GetRequest{ID: id})
	hasCode(t, err, fault.Unavailable)
	bad.bad.Store(false)
	assert.Equal(t, statemachine.Done, n.get(id).State)
	n.checkIdle()
}

// `heartbeat` is the longest silence of the worker of that step.
func TestHeartbeatOfAStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{})) // a lease of 15 s
		id := n.submit("orch: v1\nsteps: [{id: a, tool: READ, heartbeat: 1s}]\n")
		assert.Equal(t, time.Second, n.take("w").Lease)
		<-time.After(5 * time.Second)
		c := n.take("v")
		assert.Equal(t, 2, c.Attempt)
		require.NoError(t, n.report("v", c, `{}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
	})
}

// damaged is a log in which one history was changed.
type damaged struct {
	*memlog.Log

	task atomic.Value
}

func (d *damaged) Read(ctx context.Context, id events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	return func(yield func(events.Stored, error) bool) {
		for s, err := range d.Log.Read(ctx, id, from) {
			if d.task.Load() == id {
				s.Data = []byte(strings.Replace(string(s.Data), `"actor":"user:test"`, `"actor":"user:else"`, 1))
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// After a detected loss nothing is appended any more, and the node reports why.
func TestDamagedHistoryStopsAppends(t *testing.T) {
	t.Parallel()
	log := &damaged{Log: memlog.New(memlog.Config{})}
	n := start(t, log.Log, func(c *orchestrator.Config) { c.Log = log })
	id := n.submit(onePlan)
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	other := n.submit(onePlan)
	log.task.Store(id)
	_, err := n.Replay(t.Context(), api.ReplayRequest{ID: id})
	hasCode(t, err, fault.DataLoss)
	_, err = n.trySubmit(onePlan)
	hasCode(t, err, fault.DataLoss)
	hasCode(t, n.cancel(other), fault.DataLoss)
	status, err := n.Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	assert.Contains(t, status.Store, string(id))
	assert.Equal(t, other, n.get(other).ID, "reading goes on")
}

// A resume that makes a step ready dispatches its call once, however many workers wait.
func TestResumedCallIsHandedOutOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit("orch: v1\nsteps:\n  - {id: s, wait: {for: 1s}}\n  - {id: w, needs: [s], tool: WRITE}\n")
		n.pause(api.PauseRequest{ID: id})
		<-time.After(2 * time.Second)
		batches := make(chan work.Batch, 2)
		for _, worker := range []string{"a", "b"} {
			go func() { batches <- n.poll(worker, 1) }()
		}
		synctest.Wait()
		n.resume(api.PauseRequest{ID: id})
		calls := slices.Concat((<-batches).Calls, (<-batches).Calls)
		require.Len(t, calls, 1)
		require.Equal(t, 1, n.Leftovers()["running"])
	})
}

// A call that its worker recovers after a restart is not dispatched to others, also while another decision about the task is
// being written.
func TestTakenUpCallLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{Delay: func(*events.Record) time.Duration { return 100 * time.Millisecond }})
		n := start(t, log, short)
		id := n.submit("orch: v1\nsteps: [{id: a, tool: READ}]\n")
		c := n.take("w")
		n.stop()
		n = start(t, log, short)
		sent := make(chan error)
		go func() {
			_, err := n.Signal(context.Background(), api.SignalRequest{ID: id, Name: "go"})
			sent <- err
		}()
		synctest.Wait()
		n.beat("w", c)
		n.none("other")
		require.NoError(t, <-sent)
		require.NoError(t, n.report("w", c, `{}`))
		n.checkIdle()
	})
}
