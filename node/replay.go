package node

import (
	"context"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/replay"
)

// recorded returns the provider of a model that answers a task from the history of another one.
func (a asking) recorded(task events.TaskID, name string) (models.Provider, string, error) {
	n, err := replay.ParseName(name)
	if err != nil {
		return nil, "", err
	}
	read := func(ctx context.Context, turn int) (replay.Turn, error) {
		rec, err := a.n.orch.RecordedTurn(ctx, task, events.TaskID(n.Task), n.Step, turn)
		return replay.Turn(rec), unreplayable(err)
	}
	return &replay.Provider{Read: read, Strict: n.Strict}, name, nil
}

// unreplayable makes VALIDATION_ERROR of the error of a record that does not exist: another attempt would end in the same way.
func unreplayable(err error) error {
	if !fault.Has(err, fault.NotFound) && !fault.Has(err, fault.Gone) && !fault.Has(err, fault.NotUnique) {
		return err
	}
	e := *fault.From(err)
	e.Code, e.Field = fault.ValidationError, "agent.model"
	return &e
}
