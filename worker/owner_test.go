package worker_test

import (
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// owner dispatches the calls of a test and records what the worker reports.
type owner struct {
	calls    chan []work.Call
	cancels  chan []work.Ref
	outcomes chan work.Outcome

	mu     sync.Mutex
	polls  []work.Poll
	starts []work.Started
	beats  []work.Heartbeat
	// The answers; nil means success.
	onPoll   func(work.Poll) error
	onStart  func(ctx context.Context, n int) error
	onReport func(n int) error
	onBeat   func(work.Heartbeat) (work.HeartbeatReply, error)
	reports  int
}

func newOwner() *owner {
	return &owner{
		calls: make(chan []work.Call, 16), cancels: make(chan []work.Ref, 16), outcomes: make(chan work.Outcome, 64),
	}
}

func (o *owner) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	o.mu.Lock()
	o.polls = append(o.polls, p)
	o.mu.Unlock()
	if o.onPoll != nil {
		if err := o.onPoll(p); err != nil {
			return work.Batch{}, err
		}
	}
	calls := o.calls
	if p.Free == 0 {
		calls = nil
	}
	timer := time.NewTimer(p.Wait)
	defer timer.Stop()
	select {
	case c := <-calls:
		return work.Batch{Calls: pointers(c)}, nil
	case refs := <-o.cancels:
		return work.Batch{Cancel: refs}, nil
	case <-timer.C:
		return work.Batch{}, nil
	case <-ctx.Done():
		return work.Batch{}, fault.From(ctx.Err())
	}
}

func (o *owner) Start(ctx context.Context, s work.Started) error {
	o.mu.Lock()
	o.starts = append(o.starts, s)
	n := len(o.starts)
	o.mu.Unlock()
	if o.onStart != nil {
		return o.onStart(ctx, n)
	}
	return nil
}

func (o *owner) Heartbeat(_ context.Context, b work.Heartbeat) (work.HeartbeatReply, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.beats = append(o.beats, b)
	if o.onBeat != nil {
		return o.onBeat(b)
	}
	return work.HeartbeatReply{}, nil
}

func (o *owner) Report(_ context.Context, out work.Outcome) error {
	o.mu.Lock()
	o.reports++
	n := o.reports
	o.mu.Unlock()
	if o.onReport != nil {
		if err := o.onReport(n); err != nil {
			return err
		}
	}
	o.outcomes <- out
	return nil
}

func (o *owner) count() (starts, beats, reports int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.starts), len(o.beats), o.reports
}

func (o *owner) firstPoll() work.Poll {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.polls[0]
}

func (o *owner) lastPoll() work.Poll {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.polls[len(o.polls)-1]
}

func (o *owner) lastBeat() work.Heartbeat {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.beats[len(o.beats)-1]
}

func unavailable() error { return fault.New(fault.Unavailable, "the owner is away") }

// lateOwner dispatches calls although the poll was aborted, like an owner that had decided before.
type lateOwner struct{ *owner }

func (o *lateOwner) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	return o.owner.Poll(context.WithoutCancel(ctx), p)
}

// pointers returns pointers to calls, as a batch has them.
func pointers(calls []work.Call) []*work.Call {
	all := make([]*work.Call, len(calls))
	for i := range calls {
		all[i] = &calls[i]
	}
	return all
}
