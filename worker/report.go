package worker

import (
	"context"
	"log/slog"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// deliver hands over an outcome. The slot is free at once: the next call need not wait for the log.
func (w *Worker) deliver(ctx context.Context, a *attempt, o work.Outcome) {
	defer w.calls.Done()
	a.cancel(nil)
	w.roster.ended()
	w.report(ctx, a, o)
	w.roster.remove(a.Ref)
}

// report tells the owner how an attempt ended until the owner has answered, ctx ends, or the attempt
// is dropped.
func (w *Worker) report(ctx context.Context, a *attempt, o work.Outcome) {
	for failures := 0; !a.dropped.Load(); failures++ {
		err := w.owner.Report(ctx, o)
		switch {
		case err == nil:
			return
		case fault.Has(err, fault.Conflict):
			w.tell(ctx, slog.LevelInfo, "the outcome came too late and was refused", o.Ref, err)
			return
		case ctx.Err() != nil || !passing(err):
			w.tell(ctx, slog.LevelError, "the outcome could not be reported", o.Ref, err)
			return
		case failures == 0:
			w.tell(ctx, slog.LevelWarn, "the outcome waits for the owner", o.Ref, err)
		}
		if !pause(ctx, backoff(failures)) {
			return
		}
	}
}

// tell logs what the answer of the owner means for an attempt.
func (w *Worker) tell(ctx context.Context, level slog.Level, text string, ref work.Ref, cause error) {
	w.cfg.Logger.LogAttrs(ctx, level, text, slog.String("task", string(ref.Task)), slog.String("step", ref.Step),
		slog.Int("attempt", ref.Attempt), slog.Any("cause", cause))
}
