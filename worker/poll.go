package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/work"
)

// linger is how long a worker without a free slot waits for one before it polls for cancellations only. Very short calls are
// not worth the extra messages.
const linger = 2 * time.Millisecond

// poll polls the owner, which dispatches the calls, until ctx ends or the owner refuses this worker. It launches every
// call. There is always one poll open, even without a free slot, so that cancellations arrive at once.
func (w *Worker) poll(ctx context.Context, launch func(*work.Call)) error {
	for failures := 0; ctx.Err() == nil; {
		if w.attempts.stuck() {
			return fault.New(fault.Unavailable, "calls that still run after their end hold every slot of the worker").
				WithHint("restart the worker, and mend the tools that its log names")
		}
		batch, err := w.pollOnce(ctx)
		switch {
		case err == nil:
			failures = 0
			w.acceptBatch(batch, launch)
			continue
		case ctx.Err() == nil:
			w.counts.pollFailures.Add(1)
		}
		switch {
		case fault.Has(err, fault.Unauthorized), fault.Has(err, fault.Forbidden):
			return err
		case foreign(err):
			return fault.Wrap(fault.NewerRequest, err, "the node does not understand this worker: "+err.Error()).
				WithHint("use this version of orch, or a newer one, for the node")
		case ctx.Err() == nil && failures == 0:
			w.cfg.Logger.WarnContext(ctx, "the owner cannot be asked for work", slog.Any("cause", err))
		}
		_ = pause.For(ctx, backoff(failures))
		failures++
	}
	return nil
}

// foreign reports whether an error says that the owner is of another version, which does not know the requests of this worker.
func foreign(err error) bool {
	return fault.Has(err, fault.NewerRequest) || fault.Has(err, fault.MethodNotFound) || fault.Has(err, fault.InvalidParams)
}

// pollOnce sends one poll.
func (w *Worker) pollOnce(ctx context.Context) (work.Batch, error) {
	free := w.attempts.free()
	if free == 0 {
		free = w.awaitSlots(ctx)
	}
	if free == 0 {
		return w.pollCancellations(ctx)
	}
	return w.owner.Poll(ctx, w.request(free))
}

// awaitSlots gives the running calls a moment to end, and returns the number of free slots.
func (w *Worker) awaitSlots(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, linger)
	defer cancel()
	w.attempts.onFree(cancel)
	<-ctx.Done()
	w.attempts.onFree(nil)
	return w.attempts.free()
}

// pollCancellations polls without a free slot. Such a poll returns no calls, so it can be aborted as soon as a slot is free.
// A cancellation that is lost with it is repeated in the answer to a heartbeat.
func (w *Worker) pollCancellations(ctx context.Context) (work.Batch, error) {
	full, cancel := context.WithCancel(ctx)
	defer cancel()
	w.attempts.onFree(cancel)
	defer w.attempts.onFree(nil)
	batch, err := w.owner.Poll(full, w.request(0))
	if err != nil && full.Err() != nil && ctx.Err() == nil {
		return work.Batch{}, nil
	}
	return batch, err
}

func (w *Worker) request(free int) work.Poll {
	p := work.Poll{Worker: w.cfg.Name, Queues: w.cfg.Queues, Tools: w.cfg.Tools, Free: free, Slots: w.cfg.Concurrency, Wait: w.cfg.PollWait, LastBatch: w.lastBatch}
	if w.cfg.Local {
		p.Root = w.cfg.Root.Name()
	}
	return p
}

// finalPoll sends a poll for no calls. It replaces an aborted poll that may still be open at the owner, so that the owner
// dispatches no more calls to this worker.
func (w *Worker) finalPoll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, finalPollTimeout)
	defer cancel()
	final := w.request(0)
	final.Wait, final.Last = 0, true
	batch, err := w.owner.Poll(ctx, final)
	if err != nil {
		w.cfg.Logger.WarnContext(ctx, "the owner could not be told that the worker stops", slog.Any("cause", err))
		return
	}
	w.acceptBatch(batch, func(*work.Call) {})
}

// finalPollTimeout is how long a stopping worker waits for the answer to its final poll.
const finalPollTimeout = time.Second

// acceptBatch ends the calls that a batch cancels, and launches its new calls.
func (w *Worker) acceptBatch(b work.Batch, launch func(*work.Call)) {
	if b.Number != 0 {
		w.lastBatch = b.Number
	}
	for _, ref := range b.Cancel {
		if a := w.attempts.find(ref); a != nil {
			a.cancel(fault.New(fault.Cancelled, "the call was cancelled"))
		}
	}
	for _, c := range b.Calls {
		launch(c)
	}
}

// launch starts the goroutine of a call. The call runs with callsCtx and is reported with reportsCtx. If
// stopCtx has ended already, the call is cancelled at once and reported with class "shutdown".
func (w *Worker) launch(stopCtx, callsCtx, reportsCtx context.Context, c *work.Call) {
	failpoint.Pass(failpoint.Taken)
	attemptCtx, cancel := context.WithCancelCause(callsCtx)
	a := w.executor.newAttempt(c)
	a.cancel = cancel
	a.finish = func(o work.Outcome) { w.deliver(reportsCtx, a, o) }
	known, shortestLease := w.attempts.add(a)
	if known {
		cancel(nil)
		return
	}
	if shortestLease {
		w.leases.wakeHeartbeat()
	}
	if stopCtx.Err() != nil {
		cancel(stopping())
	}
	w.calls.Add(1)
	w.pool.Go(func() { w.executor.serve(attemptCtx, a) })
}
