package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// sleeper is a machine whose clock advances while all its processes are suspended.
type sleeper struct {
	began time.Time
	slept atomic.Int64
}

func (s *sleeper) uptime() time.Duration { return time.Since(s.began) + time.Duration(s.slept.Load()) }

// A worker that was suspended ends its lost calls before it contacts the owner, and then reports them.
func TestStandstillEndsWhatIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		machine := &sleeper{began: time.Now()}
		var ended, early atomic.Bool
		var cause error
		b := newBench(t, worker.Config{Uptime: machine.uptime}, readTool("WAIT", func(ctx context.Context, _ *tools.Env) (string, error) {
			<-ctx.Done()
			<-time.After(10 * time.Millisecond) // the end of a child takes its time
			cause = context.Cause(ctx)
			ended.Store(true)
			return "", ctx.Err()
		}))
		said := func() { early.Store(early.Load() || machine.slept.Load() != 0 && !ended.Load()) }
		b.owner.onBeat = func(work.Heartbeat) (work.HeartbeatReply, error) { said(); return work.HeartbeatReply{}, nil }
		b.owner.onReport = func(int) error { said(); return nil }
		stop := b.run(t)
		c := call("WAIT", "{}")
		c.Lease = 6 * time.Second
		b.owner.calls <- []work.Call{c}
		advance(20 * time.Second)
		require.False(t, ended.Load(), "it goes on with its lease")
		machine.slept.Add(int64(7 * time.Second))
		out := <-b.owner.outcomes
		assert.Equal(t, fault.ClassWorkerLost, out.Class)
		assert.False(t, early.Load(), "the owner has heard nothing before the end")
		require.ErrorIs(t, cause, proc.ErrAtOnce)
		stop()
	})
}

// Calls whose leases are valid continue: after a short suspension, while the owner is down, and if the owner was suspended as
// well.
func TestStandstillSparesTheRest(t *testing.T) {
	t.Parallel()
	away := func(work.Heartbeat) (work.HeartbeatReply, error) { return work.HeartbeatReply{}, unavailable() }
	for name, test := range map[string]struct {
		slept     time.Duration
		onBeat    func(work.Heartbeat) (work.HeartbeatReply, error)
		withOwner bool
	}{
		"short pause":   {slept: 2 * time.Second},
		"no owner":      {onBeat: away},
		"with its node": {slept: time.Hour, withOwner: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				machine := &sleeper{began: time.Now()}
				tool, began := waitTool("WAIT")
				b := newBench(t, worker.Config{Uptime: machine.uptime, WithOwner: test.withOwner}, tool)
				b.owner.onBeat = test.onBeat
				stop := b.run(t)
				c := call("WAIT", "{}")
				c.Lease = 6 * time.Second
				b.owner.calls <- []work.Call{c}
				<-began
				advance(20 * time.Second)
				machine.slept.Add(int64(test.slept))
				advance(20 * time.Second)
				assert.Empty(t, b.owner.outcomes)
				b.owner.cancels <- []work.Ref{c.Ref}
				assert.Equal(t, fault.ClassCancelled, (<-b.owner.outcomes).Class)
				stop()
			})
		})
	}
}

// The time limit of a call with effects counts from the request to Start, so that the owner knows when the call has ended.
func TestTimeLimitCountsFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var began, ended time.Time
		b := newBench(t, worker.Config{}, tools.Define(spec("WRITE", tools.Write), func(ctx context.Context, _ *tools.Env, _ none) (text, error) {
			began = time.Now()
			<-ctx.Done()
			ended = time.Now()
			return text{}, ctx.Err()
		}))
		b.owner.onStart = func(context.Context, int) error { <-time.After(3 * time.Second); return nil }
		stop := b.run(t)
		c := call("WRITE", "{}")
		c.Timeout = 5 * time.Second
		b.owner.calls <- []work.Call{c}
		assert.Equal(t, fault.ClassTimeout, (<-b.owner.outcomes).Class)
		assert.Equal(t, 2*time.Second, ended.Sub(began))
		stop()
	})
}
