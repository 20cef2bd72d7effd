package server

import (
	"context"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
)

// patience is how long the face waits for a node that is away, so that clients do not notice its restart.
const patience = 30 * time.Second

// patient is an API that asks again while its node is away: what only reads, and what may be repeated.
type patient struct{ orchestrator.API }

// Submit implements orchestrator.API. A task whose id was chosen before is submitted once.
func (p patient) Submit(ctx context.Context, r orchestrator.SubmitRequest) (orchestrator.SubmitReply, error) {
	if r.ID == "" && r.IdempotencyKey == "" {
		return p.API.Submit(ctx, r)
	}
	return again(ctx, r, p.API.Submit)
}

// Get implements orchestrator.API.
func (p patient) Get(ctx context.Context, r orchestrator.GetRequest) (orchestrator.TaskView, error) {
	return again(ctx, r, p.API.Get)
}

// Result implements orchestrator.API.
func (p patient) Result(ctx context.Context, r orchestrator.ResultRequest) (orchestrator.ResultReply, error) {
	return again(ctx, r, p.API.Result)
}

// Watch implements orchestrator.API.
func (p patient) Watch(ctx context.Context, r orchestrator.WatchRequest) (orchestrator.WatchReply, error) {
	return again(ctx, r, p.API.Watch)
}

// List implements orchestrator.API.
func (p patient) List(ctx context.Context, r orchestrator.ListRequest) (orchestrator.ListReply, error) {
	return again(ctx, r, p.API.List)
}

// History implements orchestrator.API.
func (p patient) History(ctx context.Context, r orchestrator.HistoryRequest) (orchestrator.HistoryReply, error) {
	return again(ctx, r, p.API.History)
}

// Explain implements orchestrator.API.
func (p patient) Explain(ctx context.Context, r orchestrator.GetRequest) (orchestrator.ExplainReply, error) {
	return again(ctx, r, p.API.Explain)
}

// Approvals implements orchestrator.API.
func (p patient) Approvals(ctx context.Context, r orchestrator.ApprovalsRequest) (orchestrator.ApprovalsReply, error) {
	return again(ctx, r, p.API.Approvals)
}

// again asks until there is another answer than that the node is away, at most for the patience of the face.
func again[Request, Reply any](ctx context.Context, r Request, ask func(context.Context, Request) (Reply, error)) (Reply, error) {
	limit := time.Now().Add(patience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		reply, err := ask(ctx, r)
		if !fault.Has(err, fault.Unavailable) || time.Now().Add(pause).After(limit) {
			return reply, err
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return reply, err
		case <-wait.C:
		}
	}
}
