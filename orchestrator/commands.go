package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// over returns STATE_NOT_ALLOWED for a command on a task that has ended.
func (t *reading) over(command string) error {
	if !t.task.State.Terminal() {
		return nil
	}
	return fault.New(fault.StateNotAllowed, "%s is not possible: task %s is %s", command, t.task.ID, t.task.State)
}

// Cancel implements api.API.
func (o *Orchestrator) Cancel(ctx context.Context, r api.CancelRequest) (api.TaskView, error) {
	err := o.change(ctx, r.ID, r.Actor, func(t *turn) error {
		if err := t.over("cancel"); err != nil {
			return err
		}
		if err := t.keptOpen(); err != nil {
			return err
		}
		t.cancel(o.rules.cleanText(first(r.Reason, "cancelled on request")))
		return nil
	})
	if err != nil {
		return api.TaskView{}, err
	}
	return o.Get(ctx, api.GetRequest{ID: r.ID})
}

// cleanText redacts and shortens a text that a person or client gave.
func (r *rules) cleanText(s string) string {
	const longest = 1000 // bytes
	clean, _ := r.redact([]byte(s))
	if len(clean) > longest { // after the redaction: half a secret is one, too
		return strings.ToValidUTF8(string(clean[:longest]), "") + "…"
	}
	return string(clean)
}

// cancel begins the end of a task: at once, or after its `always` steps.
func (t *turn) cancel(reason string) {
	if t.task.Cancelling {
		return
	}
	t.emit(events.TaskCancelRequested, &events.CancelRequested{Reason: reason})
}

// Signal implements api.API.
func (o *Orchestrator) Signal(ctx context.Context, r api.SignalRequest) (api.TaskView, error) {
	if r.Name == "" || len(r.Name) > maxText {
		return api.TaskView{}, fault.New(fault.RequiredField, "must be 1 to %d bytes", maxText).WithField("name")
	}
	raw, err := o.tidy(r.Data)
	if err != nil {
		return api.TaskView{}, fault.From(err).WithField("data")
	}
	data, err := o.keep(ctx, raw)
	if err != nil {
		return api.TaskView{}, err
	}
	err = o.change(ctx, r.ID, r.Actor, func(t *turn) error {
		if err := t.over("signal"); err != nil {
			return err
		}
		if len(t.task.Signals) >= maxSignals {
			return tooMany("signals that nobody waits for", maxSignals+1, maxSignals)
		}
		t.emit(events.SignalReceived, &events.Signal{Name: r.Name, Data: data})
		return nil
	})
	if err != nil {
		return api.TaskView{}, err
	}
	return o.Get(ctx, api.GetRequest{ID: r.ID})
}

const maxSignals = 1000

// Resolve implements api.API.
func (o *Orchestrator) Resolve(ctx context.Context, r api.ResolveRequest) (api.TaskView, error) {
	if r.As != "succeeded" && r.As != "failed" && r.As != "retry" {
		return api.TaskView{}, fault.New(fault.ValidationError, "must be succeeded, failed or retry").WithField("as")
	}
	raw, err := o.tidy(r.Output)
	if err != nil {
		return api.TaskView{}, fault.From(err).WithField("output")
	}
	output, err := o.keep(ctx, raw)
	if err != nil {
		return api.TaskView{}, err
	}
	err = o.change(ctx, r.ID, r.Actor, func(t *turn) error {
		s := t.task.Steps[r.Step]
		if s == nil {
			return fault.New(fault.NotFound, "task %s has no step %q that has begun", r.ID, clip(r.Step)).WithField("step")
		}
		if s.State != statemachine.StepInDoubt && !t.stuck(s) {
			return fault.New(fault.StateNotAllowed, "step %s is %s, not in doubt", s.Key, s.State).WithField("step")
		}
		if r.As == "retry" && t.task.State.Terminal() {
			return fault.New(fault.StateNotAllowed, "task %s is %s: its steps cannot run again", r.ID, t.task.State).WithField("as").
				WithHint("resolve it as succeeded or failed, then orch retry")
		}
		if t.task.State == statemachine.Blocked {
			t.emit(events.TaskUnblocked, &events.Moved{Reason: "step " + s.Key + " was resolved"})
		}
		t.emit(events.StepResolved, &events.Resolved{Step: s.Key, As: r.As, By: first(r.Actor, actorNode), Reason: o.rules.cleanText(r.Reason), Output: output})
		return nil
	})
	if err != nil {
		return api.TaskView{}, err
	}
	return o.Get(ctx, api.GetRequest{ID: r.ID})
}

// Call implements api.API. The call is a step of its own beside those of the plan; it never moves the
// state machine of the task.
func (o *Orchestrator) Call(ctx context.Context, r api.CallRequest) (api.CallReply, error) {
	tool, ok := o.cfg.Catalogue.Get(r.Tool)
	if !ok || tool.Spec().Internal {
		return api.CallReply{}, fault.New(fault.NotFound, "there is no tool %q", clip(r.Tool)).WithField("tool").WithHint("orch tools list")
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
	if rule, found := o.cfg.FindSecret(args); found {
		return api.CallReply{}, secretIn("args", rule)
	}
	value, err := o.keep(ctx, args)
	if err != nil {
		return api.CallReply{}, err
	}
	key := ""
	err = o.change(ctx, r.ID, r.Actor, func(t *turn) error {
		key = t.singleCall(tool.Spec(), value, r.Actor)
		return nil
	})
	if err != nil {
		return api.CallReply{}, err
	}
	return o.awaitCall(ctx, r, key)
}

// singleCall makes a call ready, or records that its gate denies it (S0-003, S0-008).
func (t *turn) singleCall(spec tools.Spec, args events.Value, by string) string {
	n := 1
	for t.task.Steps[fmt.Sprintf("%s_%d!", purposeCall, n)] != nil {
		n++
	}
	key := fmt.Sprintf("%s_%d!", purposeCall, n)
	mayAsk := spec.Gate == tools.AwaitingApproval && statemachine.Check(t.task.State, events.TaskApprovalRequested) == nil
	if allowed := t.task.Submitted.Tools; !mayCall(allowed, spec.Name) {
		t.denySingle(key, spec.Name, args, fault.New(fault.Forbidden,
			"%s is not among the tools that the task may call: %s", spec.Name, strings.Join(allowed, ", ")))
		return key
	}
	if !slices.Contains(spec.Gate.States(), t.task.State) && !mayAsk {
		t.denySingle(key, spec.Name, args, fault.New(fault.StateNotAllowed,
			"%s is not allowed while the task is %s; allowed: %v", spec.Name, t.task.State, spec.Gate.States()))
		return key
	}
	queue := t.task.Submitted.Queue
	if spec.AtNode {
		queue = work.NodeQueue
	}
	t.emit(events.StepReady, &events.Ready{
		Step: key, Attempt: 1, Tool: spec.Name, Args: args, Effect: string(spec.Effect),
		Queue: queue, Purpose: purposeCall, By: by, For: t.agentsFor(key, spec.Name, args),
	})
	return key
}

// denySingle records a single call that was never ready. Its purpose tells it from a step of the plan, which would
// mean that the task has begun.
func (t *turn) denySingle(key, tool string, args events.Value, why *fault.Error) {
	t.emit(events.StepFailed, &events.StepError{
		Step: key, Class: fault.ClassDenied, Tool: tool, Args: args, Purpose: purposeCall, Error: why,
	})
}

// waitsForApproval is what the caller of a call hears that waits for one (S0-004). The call goes on by itself
// once it is granted.
func waitsForApproval(s *statemachine.Step) *fault.Error {
	return fault.New(fault.ApprovalRequired, "the call waits for approval %s", s.Approval).WithReason(s.Approval).
		WithHint("orch approvals %s", s.Approval)
}

func (o *Orchestrator) awaitCall(ctx context.Context, r api.CallRequest, key string) (api.CallReply, error) {
	var reply api.CallReply
	var output events.Value
	err := o.await(ctx, r.ID, r.Wait, (*entry).change, func(e *entry) (bool, error) {
		s := e.task.Steps[key]
		if s == nil {
			return false, fault.New(fault.Internal, "the call %s is lost", key)
		}
		reply = api.CallReply{Step: key, State: s.State, Error: s.Error}
		switch {
		case inquires(s):
			reply.Questions = questionsOf(e.task, askedBy(s))
		case s.State == statemachine.StepParked:
			reply.Error = waitsForApproval(s)
		}
		output = s.Output
		return s.State.Over() || s.State == statemachine.StepInDoubt || s.State == statemachine.StepParked, nil
	})
	if err == nil {
		reply.Output, err = o.showLater(ctx, output)
	}
	return reply, err
}

// await looks at a task now and at every news, such as each change, until see says that it has seen
// enough or the wait is over.
func (o *Orchestrator) await(ctx context.Context, id events.TaskID, wait time.Duration, news func(*entry) <-chan struct{}, see func(*entry) (bool, error)) error {
	if wait > 0 {
		done, err := o.waiting()
		if err != nil {
			return err
		}
		defer done()
	}
	timer := time.NewTimer(max(min(wait, maxWait), 0))
	defer timer.Stop()
	for expired := wait <= 0; ; {
		var changed <-chan struct{}
		enough := false
		err := o.look(ctx, id, func(e *entry) error {
			var err error
			if enough, err = see(e); !enough {
				changed = news(e)
			}
			return err
		})
		if err != nil || enough || expired {
			return err
		}
		select {
		case <-changed:
		case <-timer.C:
			expired = true
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-o.stopped:
			return stopping()
		}
	}
}

// maxWait bounds how long one request may wait; clients ask again.
const maxWait = time.Minute

// Checkpoint implements api.API.
func (o *Orchestrator) Checkpoint(ctx context.Context, r api.CheckpointRequest) (api.CheckpointReply, error) {
	switch {
	case r.Name != "":
		return o.createCheckpoint(ctx, r)
	case r.ID != "":
		data, err := o.cfg.Checkpoints.Load(ctx, r.Task, r.ID)
		if fault.Has(err, fault.NotFound) {
			return o.rebuildCheckpoint(ctx, r)
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
		err := o.look(ctx, r.Task, func(e *entry) error { list = checkpointViews(e.task); return nil })
		return api.CheckpointReply{Checkpoints: list}, err
	}
}

func (o *Orchestrator) createCheckpoint(ctx context.Context, r api.CheckpointRequest) (api.CheckpointReply, error) {
	raw, err := o.tidy(r.State)
	if err != nil {
		return api.CheckpointReply{}, fault.From(err).WithField("state")
	}
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	state, err := o.keep(ctx, raw)
	if err != nil {
		return api.CheckpointReply{}, err
	}
	id := events.CheckpointIDFrom(r.Task, o.cfg.Entropy)
	err = o.change(ctx, r.Task, r.Actor, func(t *turn) error {
		if err := t.over("checkpoint"); err != nil {
			return err
		}
		t.emit(events.CheckpointCreated, &events.Checkpointed{ID: id, Name: o.rules.cleanText(r.Name), State: state, At: t.now})
		return nil
	})
	if err != nil {
		return api.CheckpointReply{}, err
	}
	return api.CheckpointReply{Checkpoints: []api.CheckpointView{{ID: id, Name: r.Name, At: o.now()}}}, nil
}

// saveCheckpoint writes the KV entry of a checkpoint that is in the log. The lock is held.
func (o *Orchestrator) saveCheckpoint(e *entry, d *events.Checkpointed) {
	task, rev := mustJSON(e.task), e.task.Rev
	save := func(ctx context.Context) {
		ctx, stop := context.WithTimeout(ctx, blobTime)
		defer stop()
		copied := &statemachine.Task{}
		err := json.Unmarshal(task, copied)
		if err == nil {
			data := mustJSON(api.Snapshot{ID: d.ID, Name: d.Name, At: d.At, Rev: rev, Task: copied, State: o.stateOf(ctx, d)})
			_, err = o.cfg.Checkpoints.Save(ctx, e.id, d.ID, data)
		}
		if err != nil {
			o.cfg.Logger.WarnContext(ctx, "checkpoint_not_saved", slog.Any("task", e.id), slog.Any("checkpoint", d.ID), slog.Any("error", err))
		}
	}
	o.outbox = append(o.outbox, func() { o.background(save, func() {}) })
}

func (o *Orchestrator) stateOf(ctx context.Context, d *events.Checkpointed) json.RawMessage {
	raw, err := o.fetch(ctx, d.State)
	if err != nil {
		return nil
	}
	return raw
}

// rebuildCheckpoint makes a checkpoint again from the log: the entry in KV is only derived.
func (o *Orchestrator) rebuildCheckpoint(ctx context.Context, r api.CheckpointRequest) (api.CheckpointReply, error) {
	task := &statemachine.Task{}
	for stored, err := range o.cfg.Log.Read(ctx, r.Task, 1) {
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
				return api.CheckpointReply{Snapshot: &api.Snapshot{ID: d.ID, Name: d.Name, At: d.At, Rev: task.Rev, Task: task, State: o.stateOf(ctx, &d)}}, nil
			}
		}
	}
	return api.CheckpointReply{}, fault.New(fault.NotFound, "task %s has no checkpoint %s", r.Task, clip(r.ID)).WithField("id")
}
