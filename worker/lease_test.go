package worker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// one heartbeat an interval carries all running calls.
func TestHeartbeatsRenewAllLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tool, _ := waitTool("WAIT")
		b := newBench(t, worker.Config{Name: "w1", Queues: []string{"q"}, Concurrency: 4}, tool)
		stop := b.run(t)
		advance(time.Minute)
		_, beats, _ := b.owner.count()
		assert.Zero(t, beats, "there is nothing to renew")

		calls := []work.Call{call("WAIT", "{}"), call("WAIT", "{}")}
		for i := range calls {
			calls[i].Step, calls[i].Lease = string(rune('a'+i)), 6*time.Second
		}
		b.owner.calls <- calls
		advance(20 * time.Second)
		_, beats, _ = b.owner.count()
		assert.InDelta(t, 10, beats, 1, "a third of the lease is 2 s")
		beat := b.owner.lastBeat()
		assert.Equal(t, "w1", beat.Worker)
		assert.Equal(t, []string{"q"}, beat.Queues)
		assert.ElementsMatch(t, []work.CallHeartbeat{{Ref: calls[0].Ref, Tool: "WAIT"}, {Ref: calls[1].Ref, Tool: "WAIT"}}, beat.Calls)
		b.owner.cancels <- []work.Ref{calls[0].Ref, calls[1].Ref}
		stop()
	})
}

// Progress goes out at most 40 times a second, the latest first of all, and without secrets.
func TestProgressIsThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{}, readTool("COUNT", func(ctx context.Context, env *tools.Env) (string, error) {
			for i := range 3000 { // 3 s
				env.Progress(float64(i+1), 3000, "with "+secret)
				<-time.After(time.Millisecond)
			}
			<-ctx.Done()
			return "", ctx.Err()
		}))
		stop := b.run(t)
		calls := b.give("COUNT", 1)
		advance(4 * time.Second)
		_, beats, _ := b.owner.count()
		assert.InDelta(t, 3*40, beats, 2)
		progress := b.owner.lastBeat().Calls[0].Progress
		require.NotNil(t, progress)
		assert.InDelta(t, 3000, progress.Done, 0)
		assert.InDelta(t, 3000, progress.Total, 0)
		assert.Contains(t, progress.Message, "with ")
		assert.NotContains(t, progress.Message, secret)
		b.owner.cancels <- []work.Ref{calls[0].Ref}
		stop()
	})
}

// A progress that lasts for 25 ms is sent by then, and a shorter one is not. The last one before the outcome is always sent.
func TestProgressIsPrompt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		still, _ := waitTool("STILL")
		b := newBench(t, worker.Config{Concurrency: 2}, still, readTool("COUNT", func(_ context.Context, env *tools.Env) (string, error) {
			for i := range 20 {
				env.Progress(float64(i+1), 0, "")
				<-time.After(26 * time.Millisecond)
			}
			env.Progress(21, 0, "")
			env.Progress(22, 0, "")
			return "", nil
		}))
		var told []float64
		b.owner.onBeat = func(beat work.Heartbeat) (work.HeartbeatReply, error) {
			assert.Len(t, beat.Calls, 1)
			told = append(told, beat.Calls[0].Progress.Done)
			return work.HeartbeatReply{}, nil
		}
		stop := b.run(t)
		idle := b.give("STILL", 1)
		counting := call("COUNT", "{}")
		counting.Step = "c"
		b.owner.calls <- []work.Call{counting}
		for i := range 20 {
			advance(26 * time.Millisecond)
			b.owner.mu.Lock()
			assert.GreaterOrEqual(t, len(told), i+1)
			b.owner.mu.Unlock()
		}
		advance(time.Second)
		<-b.owner.outcomes
		assert.InDelta(t, 22, told[len(told)-1], 0)
		assert.Contains(t, told, 20.0)
		_, beats, _ := b.owner.count()
		assert.LessOrEqual(t, beats, 22, "nothing more is said when nothing changes")
		b.owner.cancels <- []work.Ref{idle[0].Ref}
		stop()
	})
}

// A call that the owner wants to stop is ended at once, and its end is reported.
func TestStoppedCallsAreReportedAsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tool, began := waitTool("WAIT")
		b := newBench(t, worker.Config{}, tool)
		b.owner.onBeat = func(beat work.Heartbeat) (work.HeartbeatReply, error) {
			return work.HeartbeatReply{Stop: []work.Ref{beat.Calls[0].Ref, {Task: task, Step: "unknown", Attempt: 1}}}, nil
		}
		stop := b.run(t)
		b.give("WAIT", 1)
		<-began
		advance(time.Minute)
		_, beats, reports := b.owner.count()
		assert.Equal(t, 1, beats, "the call is over")
		assert.Equal(t, 1, reports)
		out := <-b.owner.outcomes
		assert.Equal(t, fault.ClassWorkerLost, out.Class)
		assert.Equal(t, fault.WorkerLost, out.Error.Code)
		stop()
	})
}

// Calls survive an outage of the owner, which is logged once.
func TestLostHeartbeatsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tool, began := waitTool("WAIT")
		b := newBench(t, worker.Config{}, tool)
		b.owner.onBeat = func(work.Heartbeat) (work.HeartbeatReply, error) { return work.HeartbeatReply{}, unavailable() }
		stop := b.run(t)
		c := call("WAIT", "{}")
		c.Timeout = time.Hour
		b.owner.calls <- []work.Call{c}
		<-began
		advance(10 * time.Minute)
		b.noneReported(t)
		assert.Equal(t, 1, strings.Count(b.log.String(), "no heartbeat got through"))
		b.owner.cancels <- []work.Ref{c.Ref}
		stop()
	})
}
