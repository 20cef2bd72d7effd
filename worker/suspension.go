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

// This file handles the suspension of a worker: its process was stopped, or its machine slept. Leases expire meanwhile, and
// other workers get the calls.

const (
	// checksPerLease is how many times a worker checks the clock within its shortest lease.
	checksPerLease = 8
	// killTime limits how long a worker waits for its lost calls to end before it contacts the owner.
	killTime = time.Second
)

// errLeaseLost is the cause with which a worker ends a call after it lost the lease.
var errLeaseLost = errors.New("the lease of the call is lost")

// leaseLost is the error of a call that ends at once because its lease is lost.
func leaseLost(why string) *fault.Error {
	return fault.Wrap(fault.WorkerLost, errors.Join(errLeaseLost, proc.ErrAtOnce), why)
}

// suspensionGuard wraps the owner. Before each request it checks whether the worker was suspended, and ends the calls whose
// leases expired meanwhile. It notices a suspension by comparing clocks. A worker that was not suspended keeps its calls even
// if no heartbeat succeeds, because then the owner is down.
type suspensionGuard struct {
	work.Owner

	attempts *attemptTable
	uptime   func() time.Duration
	log      *slog.Logger

	mu sync.Mutex
	// last is the uptime at the last check.
	last time.Duration
}

// Poll implements work.Owner.
func (v *suspensionGuard) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	v.check()
	return v.Owner.Poll(ctx, p)
}

// Start implements work.Owner.
func (v *suspensionGuard) Start(ctx context.Context, s work.Started) error {
	v.check()
	return v.Owner.Start(ctx, s)
}

// Heartbeat implements work.Owner.
func (v *suspensionGuard) Heartbeat(ctx context.Context, b work.Heartbeat) (work.HeartbeatReply, error) {
	v.check()
	return v.Owner.Heartbeat(ctx, b)
}

// Report implements work.Owner.
func (v *suspensionGuard) Report(ctx context.Context, o work.Outcome) error {
	v.check()
	return v.Owner.Report(ctx, o)
}

// watchClock checks the clock until ctx ends.
func (v *suspensionGuard) watchClock(ctx context.Context) {
	for {
		timer := time.NewTimer(v.attempts.shortestLease() / checksPerLease)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			v.check()
		}
	}
}

// check ends the calls that were lost while the worker was suspended. It returns when their tools have returned, or after
// killTime. Concurrent callers wait for that too.
func (v *suspensionGuard) check() {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.uptime()
	elapsed := now - v.last
	v.last = now
	var lost []*attempt
	for _, a := range v.attempts.stale(now, elapsed) {
		a.cancel(leaseLost("the worker was suspended for longer than the lease of the call"))
		if a.inTool.Load() {
			lost = append(lost, a)
		}
	}
	if len(lost) == 0 {
		return
	}
	v.log.Warn("the worker was suspended; it ends the calls with expired leases",
		slog.Duration("for", elapsed), slog.Int("calls", len(lost)))
	limit := time.After(killTime)
	for _, a := range lost {
		select {
		case <-a.ended:
		case <-limit:
			return
		}
	}
}

// stale returns the attempts with leases that expired while the worker was suspended. elapsed is the time since the last check.
// With three heartbeats per lease, at least two thirds of a lease remain at any time, so a shorter suspension loses no lease.
func (r *attemptTable) stale(now, elapsed time.Duration) []*attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if elapsed <= r.lease*2/3 {
		return nil // the usual case; r.lease is the shortest lease
	}
	var list []*attempt
	for _, a := range r.attempts {
		if a.Lease > 0 && elapsed > a.Lease*2/3 && now-time.Duration(a.renewed.Load()) > a.Lease {
			list = append(list, a)
		}
	}
	return list
}
