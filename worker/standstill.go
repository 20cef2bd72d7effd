package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/work"
)

// This file is about a worker that stands still: its process was stopped, or its machine slept. Leases go on meanwhile, and
// their calls become those of others.

const (
	// looksPerLease is how often a worker looks at the clock within its shortest lease.
	looksPerLease = 8
	// killTime bounds how long a worker waits for the ends of the calls that it has lost, before it says anything.
	killTime = time.Second
)

// errLeaseLost is the cause of the end of a call that is no longer the worker's.
var errLeaseLost = errors.New("the lease of the call is lost")

// leaseLost is the error of a call that ends at once because it is no longer the worker's.
func leaseLost(why string) *fault.Error {
	return fault.Wrap(fault.WorkerLost, errors.Join(errLeaseLost, proc.ErrAtOnce), why)
}

// vigil stands before the owner. Nothing is said to the owner before the worker has looked whether it stood still, and has
// ended the calls whose leases ran out meanwhile. Nobody has to tell it: it compares clocks. A worker that goes on all the
// time keeps its calls also when no heartbeat gets through, because then the owner is away.
type vigil struct {
	work.Owner

	attempts *attemptTable
	uptime   func() time.Duration
	log      *slog.Logger

	mu sync.Mutex
	// last is when the worker last looked.
	last time.Duration
}

// Poll implements work.Owner.
func (v *vigil) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	v.look()
	return v.Owner.Poll(ctx, p)
}

// Start implements work.Owner.
func (v *vigil) Start(ctx context.Context, s work.Started) error {
	v.look()
	return v.Owner.Start(ctx, s)
}

// Heartbeat implements work.Owner.
func (v *vigil) Heartbeat(ctx context.Context, b work.Heartbeat) (work.HeartbeatReply, error) {
	v.look()
	return v.Owner.Heartbeat(ctx, b)
}

// Report implements work.Owner.
func (v *vigil) Report(ctx context.Context, o work.Outcome) error {
	v.look()
	return v.Owner.Report(ctx, o)
}

// keep looks at the clock until ctx ends.
func (v *vigil) keep(ctx context.Context) {
	for {
		timer := time.NewTimer(v.attempts.shortestLease() / looksPerLease)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			v.look()
		}
	}
}

// look ends the calls that were lost while the worker stood still, and returns when their tools have returned, or killTime is
// over. Whoever looks meanwhile waits for that too.
func (v *vigil) look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.uptime()
	still := now - v.last
	v.last = now
	var lost []*attempt
	for _, a := range v.attempts.stale(now, still) {
		a.cancel(leaseLost("the worker stood still for longer than the lease of the call"))
		if a.inTool.Load() {
			lost = append(lost, a)
		}
	}
	if len(lost) == 0 {
		return
	}
	v.log.Warn("the worker stood still; it ends the calls whose leases ran out",
		slog.Duration("for", still), slog.Int("calls", len(lost)))
	limit := time.After(killTime)
	for _, a := range lost {
		select {
		case <-a.over:
		case <-limit:
			return
		}
	}
}

// stale returns the attempts whose leases have run out in a time in which the worker stood still. With healthy heartbeats,
// three to a lease, none runs out in less than two thirds of its length.
func (r *attemptTable) stale(now, still time.Duration) []*attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if still <= r.lease*2/3 {
		return nil // the usual case: no lease is shorter
	}
	var list []*attempt
	for _, a := range r.attempts {
		if a.Lease > 0 && still > a.Lease*2/3 && now-time.Duration(a.renewed.Load()) > a.Lease {
			list = append(list, a)
		}
	}
	return list
}
