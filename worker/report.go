package worker

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/work"
)

// deliver reports an outcome in the background. The slot is free at once: the next call need not wait for the log.
func (w *Worker) deliver(ctx context.Context, a *attempt, o work.Outcome) {
	defer w.calls.Done()
	a.cancel(nil)
	w.counts.add(&o)
	w.attempts.ended()
	w.report(ctx, a, o)
	w.attempts.remove(a.Ref)
}

// report reports the outcome of an attempt until the owner has answered, ctx ends, or the attempt is dropped. The last progress
// is sent first. If the owner refuses the outcome permanently, the call fails with that refusal.
func (w *Worker) report(ctx context.Context, a *attempt, o work.Outcome) {
	if a.unsent() {
		_ = w.leases.renewLeases(ctx, []*attempt{a}) // progress that is lost here is no longer needed
	}
	refused := false
	for failures := 0; !a.dropped.Load(); failures++ {
		err := w.owner.Report(ctx, o)
		if err == nil {
			failpoint.Pass(failpoint.Delivered)
			return
		}
		w.counts.reportFailures.Add(1)
		switch {
		case fault.Has(err, fault.Conflict):
			w.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "the outcome came too late and was refused", a.logAttrs(err)...)
			return
		case ctx.Err() != nil || !transient(err):
			w.cfg.Logger.LogAttrs(ctx, slog.LevelError, "the outcome could not be reported", a.logAttrs(err)...)
			if refused || ctx.Err() != nil {
				return
			}
			o, refused = w.refusedOutcome(ctx, a, o, err), true
			continue
		case failures == 0:
			w.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the outcome waits for the owner", a.logAttrs(err)...)
		}
		if pause.For(ctx, backoff(failures)) != nil {
			return
		}
	}
}

// refusedOutcome returns the outcome to report after the owner refused the outcome o: a failure with that refusal.
func (w *Worker) refusedOutcome(ctx context.Context, a *attempt, o work.Outcome, refusal error) work.Outcome {
	return work.Outcome{
		Ref: o.Ref, Worker: o.Worker, StartedAt: o.StartedAt, Duration: o.Duration,
		Error: w.cleaner.publicError(ctx, a, refusal), Class: fault.ClassToolError,
	}
}

// Vet checks an output that does not come from a tool of the worker, and removes secrets. It returns VALIDATION_ERROR if the
// output is too large or nested too deeply.
func (w *Worker) Vet(output json.RawMessage) (json.RawMessage, error) {
	return w.cleaner.vet(nil, output)
}
