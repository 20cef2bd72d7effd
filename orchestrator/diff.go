package orchestrator

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/compare"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// Diff implements api.Tasks. It folds both histories, so that it holds no lock while it compares.
func (rd *reader) Diff(ctx context.Context, r api.DiffRequest) (api.DiffReply, error) {
	a, err := rd.folded(ctx, r.A)
	if err != nil {
		return api.DiffReply{}, withField(err, "a")
	}
	b, err := rd.folded(ctx, r.B)
	if err != nil {
		return api.DiffReply{}, withField(err, "b")
	}
	var failed error
	value := func(v events.Value) json.RawMessage {
		raw, err := rd.blobs.fetch(ctx, v)
		failed = errors.Join(failed, err)
		return raw
	}
	reply := compare.Tasks(compare.Side{Task: a, Value: value}, compare.Side{Task: b, Value: value})
	if failed != nil {
		return api.DiffReply{}, fault.From(failed)
	}
	return reply, nil
}

// folded returns a task at its newest revision, folded from its history.
func (rd *reader) folded(ctx context.Context, id events.TaskID) (*statemachine.Task, error) {
	var rev uint64
	if err := rd.engine.inspect(ctx, id, func(e *entry) error { rev = e.task.Rev; return nil }); err != nil {
		return nil, err
	}
	reply, err := rd.replay(ctx, id, rev)
	return reply.Task, err
}

// withField names the field of a request in an error.
func withField(err error, field string) error {
	f := *fault.From(err)
	f.Field = field
	return &f
}
