package orchestrator

import (
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// resumeAt restores a checkpoint of a task and lets the task go on, in one commit. The state data is read first, so
// that a task does not go on without it.
func (o *Orchestrator) resumeAt(ctx context.Context, r api.PauseRequest) (api.ControlReply, error) {
	var point events.Checkpointed
	err := o.look(ctx, r.ID, func(e *entry) (err error) { point, err = checkpointOf(e.task, r.Checkpoint); return err })
	if err != nil {
		return api.ControlReply{}, err
	}
	state, err := o.fetch(ctx, point.State)
	if err != nil {
		return api.ControlReply{}, err
	}
	var at time.Time
	err = o.change(ctx, r.ID, r.Actor, func(t *turn) (err error) { at, err = t.resumeAt(r.Checkpoint, first(r.Actor, actorNode)); return err })
	if err != nil {
		return api.ControlReply{}, err
	}
	reply, err := o.controlled(ctx, r.ID)
	reply.Restored = &api.RestoredView{CheckpointID: point.ID, State: state, At: at}
	return reply, err
}

// checkpointOf finds a checkpoint of a task: FORBIDDEN for one of another task, NOT_FOUND for an unknown one.
func checkpointOf(t *statemachine.Task, id string) (events.Checkpointed, error) {
	at := slices.IndexFunc(t.Checkpoints, func(c events.Checkpointed) bool { return c.ID == id })
	if at >= 0 {
		return t.Checkpoints[at], nil
	}
	err := fault.New(fault.NotFound, "task %s has no checkpoint %q", t.ID, clip(id))
	if owner, known := events.TaskOfCheckpoint(id); known && owner != t.ID {
		err = fault.New(fault.Forbidden, "the checkpoint belongs to another task")
	}
	return events.Checkpointed{}, err.WithField("checkpoint").WithHint("orch checkpoint list %s tells which it has", t.ID)
}

// resumeAt records the restore and ends what keeps the task from going on. It returns when that was: a request that
// comes again, since its answer was lost, changes nothing more.
func (t *turn) resumeAt(id, by string) (time.Time, error) {
	if t.task.State.Terminal() || !t.task.Paused && !t.blockedByTime() {
		if done := t.task.Resumed; done != nil && done.ID == id {
			return done.At, nil
		}
		return time.Time{}, t.notResumable()
	}
	t.emit(events.CheckpointRestored, &events.Restored{ID: id, At: t.now, Resumed: true})
	if t.task.Paused {
		t.emit(events.TaskResumed, &events.Paused{})
	}
	t.askAgain(by)
	return t.now, nil
}

// blockedByTime reports whether the task is blocked since nobody decided in time: to go on it only has to ask again.
func (t *reading) blockedByTime() bool {
	return t.task.State == statemachine.Blocked && (t.task.Block == blockExpired || t.anyStuck())
}

// notResumable says why there is nothing to resume, and what to do instead.
func (t *reading) notResumable() error {
	err := fault.New(fault.StateNotAllowed, "task %s is %s: there is nothing to resume", t.task.ID, t.task.State)
	switch {
	case t.task.State.Terminal():
		return err.WithHint("orch retry %s runs it anew", t.task.ID)
	case t.task.State == statemachine.Blocked, t.task.State == statemachine.AwaitingApproval:
		return err.WithHint("orch explain %s says what it waits for", t.task.ID)
	default:
		return err.WithHint("orch pause %s first", t.task.ID)
	}
}
