package orchestrator

import (
	"context"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
)

// RecordedTurn returns a turn, from 1, of an agent step of the task from, for a request of another task; step may be "" if from has only
// one. For a task whose submitter sees only its own tasks, the tasks of others do not exist.
func (c *conversations) RecordedTurn(ctx context.Context, task, from events.TaskID, step string, turn int) (rec decide.Recorded, err error) {
	var requester string
	var limited bool
	err = c.inspect(ctx, task, func(e *entry) error {
		requester, limited = originalRequester(e.task), e.task.Submitted.Limited
		return nil
	})
	if err != nil {
		return rec, err
	}
	err = c.view(ctx, from, func(v *viewer) error {
		if limited && originalRequester(v.Task) != requester {
			return noTask(from)
		}
		key, err := agentStep(&v.Reading, step)
		if err != nil {
			return err
		}
		rec, err = decide.RecordedTurn(&v.Reading, key, turn)
		return err
	})
	return rec, err
}
