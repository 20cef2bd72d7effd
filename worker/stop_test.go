package worker_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// endlessOwner always has calls. It stops the worker after a number of outcomes.
type endlessOwner struct {
	stopAfter int
	stop      context.CancelFunc

	mu       sync.Mutex
	taken    int
	outcomes map[int]string
}

func (o *endlessOwner) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	if p.Free == 0 && p.Wait == 0 {
		return work.Batch{}, nil
	}
	if p.Free == 0 {
		<-ctx.Done()
		return work.Batch{}, ctx.Err()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := make([]work.Call, p.Free)
	for i := range calls {
		o.taken++
		calls[i] = call("ECHO", `{"text":"x"}`)
		calls[i].Attempt = o.taken
	}
	return work.Batch{Calls: pointers(calls)}, nil
}

func (o *endlessOwner) Start(context.Context, work.Started) error { return nil }

func (o *endlessOwner) Heartbeat(context.Context, work.Heartbeat) (work.HeartbeatReply, error) {
	return work.HeartbeatReply{}, nil
}

func (o *endlessOwner) Report(_ context.Context, out work.Outcome) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outcomes[out.Attempt] = out.Class
	if len(o.outcomes) >= o.stopAfter {
		o.stop()
	}
	return nil
}

// Whenever a busy worker is stopped, every call that it accepted has an outcome, and a worker can run again.
func TestStopAtAnyMomentLosesNothing(t *testing.T) {
	t.Parallel()
	o := &endlessOwner{}
	b := newBench(t, worker.Config{})
	w := b.withOwner(t, o, echoTool())
	for round := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		o.stopAfter, o.stop, o.taken, o.outcomes = round, cancel, 0, map[int]string{}
		require.NoError(t, w.Run(ctx))
		assert.Len(t, o.outcomes, o.taken)
		for attempt, class := range o.outcomes {
			assert.Contains(t, []string{"", "shutdown"}, class, "attempt %d", attempt)
		}
		cancel()
	}
}
