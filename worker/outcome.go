package worker

import (
	"context"
	"errors"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// conclude builds the outcome, writes it to the notes of the workspace, and delivers it.
func (x *executor) conclude(ctx context.Context, a *attempt, res result, err error) {
	close(a.ended)
	x.leases.sendRest(ctx, a)
	o := work.Outcome{
		Ref: a.Ref, Worker: x.cfg.Name, StartedAt: events.Time(a.startedAt), Duration: x.cfg.Clock().Sub(a.startedAt),
		Effect: a.resolvedEffect(),
	}
	if err == nil {
		o.Output, o.Facts, o.Values, o.Spawn, o.AgentCall = res.output, res.facts, res.values, res.spawn, res.agentCall
	} else {
		x.setError(ctx, a, &o, err)
	}
	if o.Error != nil && o.Error.Reason == policy.ReasonRate {
		o.RetryAfter = a.RetryAfter
	}
	x.notes.recordCall(ctx, a, o)
	a.finish(o)
}

// setError fills in the outcome of a call that returned an error. The call waits for an approval or for answers, continues
// elsewhere, or has failed.
func (x *executor) setError(ctx context.Context, a *attempt, o *work.Outcome, err error) {
	if waits, ok := errors.AsType[*approvalError](err); ok {
		o.ApprovalRequest = x.cleaner.publicAsk(a, waits.ask)
		return
	}
	if asking, ok := errors.AsType[*tools.Asking](err); ok {
		for _, q := range asking.Questions {
			o.Questions = append(o.Questions, work.Question(q))
		}
		o.Note = asking.Note
		return
	}
	if noted, ok := errors.AsType[*tools.Noted](err); ok {
		o.Note = noted.Note
		return
	}
	o.Error, o.Class = x.cleaner.publicError(ctx, a, err), classify(err)
}
