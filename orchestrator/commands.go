package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// operations implements the commands for tasks and for the node, such as Cancel, Signal and Pause.
type operations struct {
	*core

	engine    *engine
	reader    *reader
	submitter *submitter
	blobs     *blobStore
	clean     *cleaner
	pauses    *pauseList
}

// Cancel implements api.Tasks.
func (op *operations) Cancel(ctx context.Context, r api.CancelRequest) (api.TaskView, error) {
	err := seen{r.ID, r.SeenRev, r.Actor}.change(ctx, op.reader, func(t *decide.Turn) error {
		if err := t.CheckOpen("cancel"); err != nil {
			return err
		}
		if err := t.CheckNotStanding(); err != nil {
			return err
		}
		t.Cancel(op.rules.CleanText(cmp.Or(r.Reason, "cancelled on request")))
		return nil
	})
	if err != nil {
		return api.TaskView{}, err
	}
	return op.reader.Get(ctx, api.GetRequest{ID: r.ID})
}

// Signal implements api.Tasks.
func (op *operations) Signal(ctx context.Context, r api.SignalRequest) (api.TaskView, error) {
	if r.Name == "" || len(r.Name) > maxText {
		return api.TaskView{}, fault.New(fault.RequiredField, "must be 1 to %d bytes", maxText).WithField("name")
	}
	raw, err := op.clean.normalize(r.Data)
	if err != nil {
		return api.TaskView{}, fault.From(err).WithField("data")
	}
	data, err := op.blobs.offload(ctx, raw)
	if err != nil {
		return api.TaskView{}, err
	}
	err = op.engine.change(ctx, r.ID, r.Actor, func(t *decide.Turn) error {
		if r.Key != "" && slices.Contains(t.Task.SignalKeys, r.Key) {
			return fault.New(fault.Conflict, "task %s has this signal", r.ID).WithReason(api.ReasonRepeatedSignal)
		}
		if err := t.CheckOpen("signal"); err != nil {
			return err
		}
		if len(t.Task.Signals) >= maxSignals {
			return tooMany("signals that nobody waits for", maxSignals+1, maxSignals)
		}
		t.Emit(events.SignalReceived, &events.Signal{Name: r.Name, Data: data, Key: r.Key})
		return nil
	})
	if err != nil {
		return api.TaskView{}, err
	}
	return op.reader.Get(ctx, api.GetRequest{ID: r.ID})
}

const maxSignals = 1000

// Resolve implements api.Tasks.
func (op *operations) Resolve(ctx context.Context, r api.ResolveRequest) (api.TaskView, error) {
	if r.As != "succeeded" && r.As != "failed" && r.As != "retry" {
		return api.TaskView{}, fault.New(fault.ValidationError, "must be succeeded, failed or retry").WithField("as")
	}
	raw, err := op.clean.normalize(r.Output)
	if err != nil {
		return api.TaskView{}, fault.From(err).WithField("output")
	}
	output, err := op.blobs.offload(ctx, raw)
	if err != nil {
		return api.TaskView{}, err
	}
	err = seen{r.ID, r.SeenRev, r.Actor}.change(ctx, op.reader, func(t *decide.Turn) error {
		s := t.Task.Steps[r.Step]
		if s == nil {
			return fault.New(fault.NotFound, "task %s has no step %q that has begun", r.ID, decide.Clip(r.Step)).WithField("step")
		}
		if s.State != statemachine.StepInDoubt && !t.Stuck(s) {
			return fault.New(fault.StateNotAllowed, "step %s is %s, not in doubt", s.Key, s.State).WithField("step")
		}
		if r.As == "retry" && t.Task.State.Terminal() {
			return fault.New(fault.StateNotAllowed, "task %s is %s: its steps cannot run again", r.ID, t.Task.State).WithField("as").
				WithHint("resolve it as succeeded or failed, then orch retry")
		}
		if t.Task.State == statemachine.Blocked {
			t.Emit(events.TaskUnblocked, &events.Moved{Reason: "step " + s.Key + " was resolved"})
		}
		t.Emit(events.StepResolved, &events.Resolved{Step: s.Key, As: r.As, By: cmp.Or(r.Actor, decide.ActorNode), Reason: op.rules.CleanText(r.Reason), Output: output})
		return nil
	})
	if err != nil {
		return api.TaskView{}, err
	}
	return op.reader.Get(ctx, api.GetRequest{ID: r.ID})
}

// Call implements api.Tasks. The call becomes a step in addition to those of the plan. It never changes the state of the task
//
func (op *operations) Call(ctx context.Context, r api.CallRequest) (api.CallReply, error) {
	tool, ok := op.cfg.Catalogue.Get(r.Tool)
	if !ok || tool.Spec().Internal {
		return api.CallReply{}, fault.New(fault.NotFound, "there is no tool %q", decide.Clip(r.Tool)).WithField("tool").WithHint("orch tools list")
	}
	if tool.Spec().Direct {
		return api.CallReply{}, fault.New(fault.Forbidden, "%s is not called inside of a task", tool.Spec().Name).WithField("tool")
	}
	args, err := tool.Check(r.Args)
	if err == nil {
		args, err = compact(args)
	}
	if err != nil {
		return api.CallReply{}, err
	}
	if rule, found := op.cfg.FindSecret(args); found {
		return api.CallReply{}, decide.SecretIn("args", rule)
	}
	value, err := op.blobs.offload(ctx, args)
	if err != nil {
		return api.CallReply{}, err
	}
	key := ""
	err = op.engine.change(ctx, r.ID, r.Actor, func(t *decide.Turn) error {
		key = t.SingleCall(tool.Spec(), value, r.Actor)
		return nil
	})
	if err != nil {
		return api.CallReply{}, err
	}
	return op.awaitCall(ctx, r, key)
}

// waitsForApproval returns the error for a client with a call that waits for approval (S0-004). The call continues by itself
// once the approval is granted.
func waitsForApproval(s *statemachine.Step) *fault.Error {
	return fault.New(fault.ApprovalRequired, "the call waits for approval %s", s.Approval).WithReason(s.Approval).
		WithHint("orch approvals %s", s.Approval)
}

// awaitCall waits until the call of a step has ended or waits for people, at most r.Wait.
func (op *operations) awaitCall(ctx context.Context, r api.CallRequest, key string) (api.CallReply, error) {
	var reply api.CallReply
	var output events.Value
	err := op.reader.await(ctx, r.ID, r.Wait, (*entry).change, func(e *entry) (bool, error) {
		s := e.task.Steps[key]
		if s == nil {
			return false, fault.New(fault.Internal, "the call %s is lost", key)
		}
		reply = api.CallReply{Step: key, State: s.State, Error: s.Error}
		switch {
		case decide.WaitsForAnswers(s):
			reply.Questions = questionsOf(e.task, askedBy(s))
		case s.State == statemachine.StepParked:
			reply.Error = waitsForApproval(s)
		}
		output = s.Output
		return s.State.Terminal() || s.State == statemachine.StepInDoubt || s.State == statemachine.StepParked, nil
	})
	if err == nil {
		reply.Output, err = op.engine.renderLater(ctx, output)
	}
	return reply, err
}

// maxWait limits how long one request may wait; clients repeat it.
const maxWait = time.Minute

// Checkpoint implements api.Tasks.
func (op *operations) Checkpoint(ctx context.Context, r api.CheckpointRequest) (api.CheckpointReply, error) {
	switch {
	case r.Name != "":
		return op.createCheckpoint(ctx, r)
	case r.ID != "":
		data, err := op.cfg.Checkpoints.Load(ctx, r.Task, r.ID)
		if fault.Has(err, fault.NotFound) {
			return op.reader.rebuildCheckpoint(ctx, r)
		}
		if err != nil {
			return api.CheckpointReply{}, err
		}
		var snap api.Snapshot
		if err := json.Unmarshal(data, &snap); err != nil {
			return api.CheckpointReply{}, fault.Wrap(fault.DataLoss, err, "the checkpoint is damaged")
		}
		return api.CheckpointReply{Snapshot: &snap}, nil
	default:
		var list []api.CheckpointView
		err := op.engine.inspect(ctx, r.Task, func(e *entry) error { list = checkpointViews(e.task); return nil })
		return api.CheckpointReply{Checkpoints: list}, err
	}
}

func (op *operations) createCheckpoint(ctx context.Context, r api.CheckpointRequest) (api.CheckpointReply, error) {
	raw, err := op.clean.normalize(r.State)
	if err != nil {
		return api.CheckpointReply{}, fault.From(err).WithField("state")
	}
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	state, err := op.blobs.offload(ctx, raw)
	if err != nil {
		return api.CheckpointReply{}, err
	}
	id := events.CheckpointIDFrom(r.Task, op.cfg.Entropy)
	err = op.engine.change(ctx, r.Task, r.Actor, func(t *decide.Turn) error {
		if err := t.CheckOpen("checkpoint"); err != nil {
			return err
		}
		t.Emit(events.CheckpointCreated, &events.Checkpointed{ID: id, Name: op.rules.CleanText(r.Name), State: state, At: t.Now})
		return nil
	})
	if err != nil {
		return api.CheckpointReply{}, err
	}
	return api.CheckpointReply{Checkpoints: []api.CheckpointView{{ID: id, Name: r.Name, At: op.now()}}}, nil
}

// saveCheckpoint writes a checkpoint that is in the log to the checkpoint store. mu must be held.
func (bs *blobStore) saveCheckpoint(e *entry, d *events.Checkpointed) {
	task, rev := decide.MustJSON(e.task), e.task.Rev
	save := func(ctx context.Context) {
		ctx, stop := context.WithTimeout(ctx, blobTime)
		defer stop()
		copied := &statemachine.Task{}
		err := json.Unmarshal(task, copied)
		if err == nil {
			data := decide.MustJSON(api.Snapshot{ID: d.ID, Name: d.Name, At: d.At, Rev: rev, Task: copied, State: bs.stateOf(ctx, d)})
			_, err = bs.cfg.Checkpoints.Save(ctx, e.id, d.ID, data)
		}
		if err != nil {
			bs.cfg.Logger.WarnContext(ctx, "checkpoint_not_saved", slog.Any("task", e.id), slog.Any("checkpoint", d.ID), slog.Any("error", err))
		}
	}
	bs.outbox = append(bs.outbox, func() { bs.background(save, func() {}) })
}

func (bs *blobStore) stateOf(ctx context.Context, d *events.Checkpointed) json.RawMessage {
	raw, err := bs.fetch(ctx, d.State)
	if err != nil {
		return nil
	}
	return raw
}

// rebuildCheckpoint computes a checkpoint from the log. The checkpoint store contains only copies.
func (rd *reader) rebuildCheckpoint(ctx context.Context, r api.CheckpointRequest) (api.CheckpointReply, error) {
	task := &statemachine.Task{}
	for stored, err := range rd.cfg.Log.Read(ctx, r.Task, 1) {
		if err != nil {
			return api.CheckpointReply{}, err
		}
		c, err := events.Decode(stored.Data)
		if err == nil {
			err = task.Fold(c, stored.Data)
		}
		if err != nil {
			return api.CheckpointReply{}, err
		}
		for _, d := range task.Checkpoints {
			if d.ID == r.ID {
				return api.CheckpointReply{Snapshot: &api.Snapshot{ID: d.ID, Name: d.Name, At: d.At, Rev: task.Rev, Task: task, State: rd.blobs.stateOf(ctx, &d)}}, nil
			}
		}
	}
	return api.CheckpointReply{}, fault.New(fault.NotFound, "task %s has no checkpoint %s", r.Task, decide.Clip(r.ID)).WithField("id")
}
