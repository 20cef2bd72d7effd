package orchestrator

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
)

// deliveryOf returns the delivery of a request for its first event, with a large body in the blob store; nil for none.
func (sm *submitter) deliveryOf(ctx context.Context, r api.SubmitRequest) (*events.Delivery, error) {
	if r.Hook == nil {
		return nil, nil //nolint:nilnil // most tasks have none
	}
	body, err := sm.clean.normalize(r.Hook.Body.Raw)
	if err != nil {
		return nil, fault.From(err).WithField("body")
	}
	d := *r.Hook
	if d.Body, err = sm.blobs.offload(ctx, body); err != nil {
		return nil, err
	}
	if d.Body.Ref() != "" {
		sm.blobs.values.put(d.Body.Ref(), body)
	}
	return &d, nil
}

// hookOf returns the delivery that has started a task, for a task that continues it; nil for none.
func hookOf(t *decide.Reading) *events.Delivery {
	was := t.Task.Submitted.Hook
	if was == nil {
		return nil
	}
	d := *was
	d.Body = events.Inline(t.Fetch(was.Body))
	return &d
}
