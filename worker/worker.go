// Package worker executes tool calls. A Worker polls an owner for calls, runs every call through the same sequence of checks (the
// chain), renews its leases with heartbeats, and reports the outcome of each call.
//
// Guarantees:
//   - No code path calls a tool without the chain (S0-002). A call that is refused changes nothing.
//   - A tool with effects is not called before the owner has made the start durable.
//   - An outcome is reported until the owner has accepted or refused it, even if the owner is down meanwhile. The owner refuses
//     an attempt that is no longer current.
//   - A worker that was suspended for longer than a lease ends the calls that it has lost before it contacts the owner.
//   - A tool that panics, hangs or returns too much fails its call; the worker survives (S3-144).
//   - Secrets are removed from outputs, errors, progress and facts before they leave.
package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/gopool"
	"github.com/orch-dev/orch/internal/workspace"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// lastReports is how long a stopping worker tries to report its outcomes after all calls have ended.
const lastReports = 2 * time.Second

// Worker executes calls. It is safe for concurrent use.
type Worker struct {
	*core

	leases   *leaseKeeper
	executor *executor
	cleaner  *cleaner
	// calls counts the calls that were accepted and not reported yet.
	calls sync.WaitGroup
	pool  *gopool.Pool
	// counts counts what the worker does.
	counts *counts
	// lastBatch is the number of the newest batch with calls. Only the polling goroutine uses it.
	lastBatch uint64
}

// New returns a worker. It does no I/O. Errors: VALIDATION_ERROR for an invalid cfg, OUTSIDE_ROOT for a Working folder outside
// the root.
func New(owner work.Owner, catalogue *tools.Catalogue, rules Policy, cfg Config) (*Worker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	tree, err := workspace.New(cfg.Root, cfg.Working)
	if err != nil {
		return nil, err
	}
	attempts := newAttemptTable(cfg)
	watch := &suspensionGuard{Owner: owner, attempts: attempts, uptime: cfg.Uptime, log: cfg.Logger, last: cfg.Uptime()}
	co := &core{owner: watch, rules: rules, cfg: cfg, workspaces: tree, attempts: attempts}
	cleaner := &cleaner{co}
	leases := &leaseKeeper{core: co, cleaner: cleaner, wake: make(chan struct{}, 1)}
	return &Worker{
		core: co, leases: leases, executor: newExecutor(co, cleaner, leases, catalogue), cleaner: cleaner, pool: gopool.New(idlePerSlot * cfg.Concurrency), counts: newCounts(), lastBatch: 1,
	}, nil
}

// idlePerSlot is how many idle goroutines the worker keeps for each slot. Calls that wait for the log have ended, and hold no slot.
const idlePerSlot = 4

// Name returns the unique name of the worker.
func (w *Worker) Name() string { return w.cfg.Name }

// Run polls for calls and executes them until ctx ends, and returns when everything that it started has ended. The end of ctx
// is a soft stop: the worker accepts no calls, but running calls have DrainTimeout to finish. Then they are cancelled and
// reported with class "shutdown". Run returns nil after a stop, and an error if the owner refuses this worker.
func (w *Worker) Run(ctx context.Context) error {
	base := context.WithoutCancel(ctx)
	calls, cancelCalls := context.WithCancelCause(base)
	defer cancelCalls(nil)
	reports, endReports := context.WithCancel(base)
	defer endReports()

	var beats sync.WaitGroup
	beats.Go(func() { w.leases.heartbeat(reports) })
	if !w.cfg.WithOwner {
		beats.Go(func() { w.owner.watchClock(reports) })
	}
	err := w.poll(ctx, func(c *work.Call) { w.launch(ctx, calls, reports, c) })
	if err == nil {
		w.finalPoll(base)
	}
	w.drain(ctx, cancelCalls, endReports)
	w.pool.Stop()
	endReports()
	beats.Wait()
	return err
}

// drain waits for the running calls, first without cancelling them, then after cancelling them.
func (w *Worker) drain(ctx context.Context, cancelCalls context.CancelCauseFunc, endReports context.CancelFunc) {
	ended := make(chan struct{})
	go func() {
		w.calls.Wait()
		close(ended)
	}()
	if closedWithin(ended, w.cfg.DrainTimeout) {
		return
	}
	w.cfg.Logger.WarnContext(ctx, "calls did not end in time and are cancelled", slog.Int("calls", w.attempts.size()))
	cancelCalls(stopping())
	if closedWithin(ended, w.cfg.Grace+lastReports) {
		return
	}
	w.cfg.Logger.ErrorContext(ctx, "outcomes could not be reported; their leases will expire", slog.Int("calls", w.attempts.size()))
	endReports()
	<-ended
}

// closedWithin waits for done, and reports whether it was closed before the time limit.
func closedWithin(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// stopping is the error of a call that ends because its worker stops. The call is repeated without counting as a retry.
func stopping() *fault.Error {
	return fault.Wrap(fault.Unavailable, errStopping, "the worker is stopping")
}

// Execute runs one call through the chain and returns its outcome without reporting it. It serves single calls outside of Run.
// The end of ctx cancels the call.
func (w *Worker) Execute(ctx context.Context, call work.Call) work.Outcome {
	done := make(chan work.Outcome, 1)
	a := w.executor.newAttempt(&call)
	a.finish = func(o work.Outcome) { done <- o }
	go w.executor.serve(ctx, a)
	return <-done
}
