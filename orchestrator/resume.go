package orchestrator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// resumeAt restores a checkpoint of a task and resumes the task, in one commit. It reads the state data of the checkpoint
// first, so that a task is not resumed if the data cannot be read.
func (op *operations) resumeAt(ctx context.Context, r api.PauseRequest) (api.ControlReply, error) {
	var checkpoint events.Checkpointed
	err := op.engine.inspect(ctx, r.ID, func(e *entry) (err error) { checkpoint, err = checkpointOf(e.task, r.Checkpoint); return err })
	if err != nil {
		return api.ControlReply{}, err
	}
	state, err := op.blobs.fetch(ctx, checkpoint.State)
	if err != nil {
		return api.ControlReply{}, err
	}
	var at time.Time
	err = seen{r.ID, r.SeenRev, r.Actor}.change(ctx, op.reader, func(t *decide.Turn) (err error) {
		at, err = t.ResumeAt(r.Checkpoint, cmp.Or(r.Actor, decide.ActorNode))
		return err
	})
	if err != nil {
		return api.ControlReply{}, err
	}
	reply, err := op.controlReply(ctx, r.ID)
	reply.Restored = &api.RestoredView{CheckpointID: checkpoint.ID, State: state, At: at}
	return reply, err
}

// checkpointOf returns a checkpoint of a task. Errors: FORBIDDEN for a checkpoint of another task, NOT_FOUND for an unknown id.
func checkpointOf(t *statemachine.Task, id string) (events.Checkpointed, error) {
	at := slices.IndexFunc(t.Checkpoints, func(c events.Checkpointed) bool { return c.ID == id })
	if at >= 0 {
		return t.Checkpoints[at], nil
	}
	err := fault.New(fault.NotFound, "task %s has no checkpoint %q", t.ID, decide.Clip(id))
	if owner, known := events.TaskOfCheckpoint(id); known && owner != t.ID {
		err = fault.New(fault.Forbidden, "the checkpoint belongs to another task")
	}
	return events.Checkpointed{}, err.WithField("checkpoint").WithHint("orch checkpoint list %s tells which it has", t.ID)
}
