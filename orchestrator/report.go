package orchestrator

import (
	"context"
	"log/slog"

	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// Report implements work.Owner.
func (ws *workSource) Report(ctx context.Context, r work.Outcome) error {
	done := make(chan error, 1)
	ws.ReportThen(ctx, &r, func(err error) { done <- err })
	return ws.awaitTurn(ctx, done)
}

// ReportThen is Report for callers that do not wait, so that they need no goroutine for each outcome. It calls done once, maybe
// before it returns. done must not block. The outcome must not be changed after the call. done is not called if Run ends first.
func (ws *workSource) ReportThen(ctx context.Context, r *work.Outcome, done func(error)) {
	failpoint.Pass(failpoint.Reported)
	in, err := ws.normalize(ctx, r)
	if err != nil {
		done(err)
		return
	}
	ws.lock()
	ws.shareOutcome(r, func(lent *statemachine.Approval, err error) {
		if err != nil {
			done(err)
			return
		}
		in.Lent = lent
		ws.recordOutcome(r, in, done)
	})
	ws.unlock()
}

// recordOutcome records the outcome of a call, and calls done with CONFLICT if it came too late. mu must be held.
func (ws *workSource) recordOutcome(r *work.Outcome, in decide.Received, done func(error)) {
	late := false
	ws.engine.turn(r.Task, workerActor(r.Worker), func(t *decide.Turn) error {
		if err := t.Attempts().MayHandOn(r); err != nil {
			ws.cfg.Logger.Debug("handover_refused", slog.Any("task", r.Task), slog.String("step", r.Step), slog.String("agent", r.Worker), slog.Any("error", err))
			return err
		}
		late = t.Attempts().Report(r, in)
		return nil
	}, func(err error) {
		if err == nil && late {
			err = lateFor(r.Ref)
		}
		done(err)
	})
}
