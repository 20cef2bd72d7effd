package orchestrator

import (
	"cmp"
	"context"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// Retry implements api.Tasks. The first retry of a task uses the id of its redrive, so that the task leaves the dead letter.
func (sm *submitter) Retry(ctx context.Context, r api.RetryRequest) (api.SubmitReply, error) {
	if _, err := (seen{r.ID, r.SeenRev, r.Actor}).check(ctx, sm.reader); err != nil {
		return api.SubmitReply{}, err
	}
	reply, err := sm.retryTask(ctx, r, redriveOf(r.ID))
	if err != nil || !reply.Existing {
		return reply, err
	}
	return sm.retryTask(ctx, r, "")
}

// retryTask submits a new task that continues a finished one. With an empty id, it chooses the id of the new task.
func (sm *submitter) retryTask(ctx context.Context, r api.RetryRequest, id events.TaskID) (api.SubmitReply, error) {
	var req api.SubmitRequest
	var extra *submitExtra
	var parts []events.TaskID
	err := sm.engine.view(ctx, r.ID, func(t *viewer) error {
		e := t.e
		if err := mayRetry(e, r); err != nil {
			return err
		}
		repeated, err := repeatedSteps(e, r.From)
		if err != nil {
			return err
		}
		requested := repeated
		if r.From == "" {
			requested = nil
		}
		if key := doubtfulStep(e.task, requested); key != "" {
			return fault.New(fault.InDoubt, "it is unknown whether step %s took effect", key).WithField("from").
				WithHint("orch retry %s --from %s runs it again", r.ID, key)
		}
		sub := e.task.Submitted
		extra = &submitExtra{origin: r.ID, parent: nil, reuse: reusable(e, repeated), tools: sub.Tools, within: sub.Within, programs: programsOf(sub), root: sub.Root, limited: sub.Limited, limitKey: sub.LimitKey}
		extra.created, extra.schedule, extra.reads = new(createdOf(e.task)), sub.Schedule, decide.ReadsOf(e.task, extra.reuse)
		parts = unfinishedParts(e.task, requested)
		if r.From == "" { // a failed call may have had its effect, so the repetition uses the same idempotency key
			extra.keyOf = events.TaskID(cmp.Or(string(sub.KeyOf), string(r.ID)))
			extra.addParts(e, repeated)
			extra.agents = t.ContinueAgents(repeated, extra.reuse)
			extra.loops = t.ContinueEach(repeated, extra.reuse, extra.agents)
		}
		req = api.SubmitRequest{ID: id, Name: sub.Name, Labels: sub.Labels, Priority: sub.Priority, Queue: sub.Queue, Actor: r.Actor, Via: r.Via, Plan: e.plan.Program.Plan().JSON()}
		req.Inputs, req.Hook = t.Fetch(sub.Inputs), hookOf(&t.Reading)
		return nil
	})
	if err == nil {
		err = sm.engine.parts().checkParts(ctx, r.ID, parts)
	}
	if err != nil {
		return api.SubmitReply{}, err
	}
	return sm.submit(ctx, req, extra)
}

// mayRetry returns why a task cannot be retried, or nil if it can.
func mayRetry(e *entry, r api.RetryRequest) error {
	if e.imported != nil {
		return importedFault(e.id)
	}
	if e.plan.Unusable != nil {
		return e.plan.Unusable
	}
	if e.task.Part != nil {
		return fault.New(fault.StateNotAllowed, "%s is a part of a for_each of %s", r.ID, decide.HomeOf(e.task)).
			WithHint("orch retry %s", decide.HomeOf(e.task))
	}
	if e.task.State != statemachine.Failed && e.task.State != statemachine.Cancelled && r.From == "" {
		return fault.New(fault.StateNotAllowed, "retry is for failed and cancelled tasks; %s is %s", r.ID, e.task.State).
			WithHint("orch retry %s --from STEP runs a part again", r.ID)
	}
	if !e.task.State.Terminal() {
		return fault.New(fault.StateNotAllowed, "task %s is not over", r.ID)
	}
	return nil
}

// Redrive implements api.Tasks.
func (sm *submitter) Redrive(ctx context.Context, r api.RedriveRequest) (api.SubmitReply, error) {
	if _, err := (seen{r.ID, r.SeenRev, r.Actor}).check(ctx, sm.reader); err != nil {
		return api.SubmitReply{}, err
	}
	var planless *events.Submitted
	err := sm.engine.inspect(ctx, r.ID, func(e *entry) error {
		if e.imported != nil {
			return importedFault(e.id)
		}
		if e.plan.Unusable != nil && !e.task.State.Terminal() {
			planless = e.task.Submitted
			return nil
		}
		return mayRedrive(e)
	})
	switch {
	case err != nil:
		return api.SubmitReply{}, err
	case planless != nil:
		return sm.unblockPlan(ctx, r, planless)
	}
	return sm.retryTask(ctx, api.RetryRequest{ID: r.ID, Actor: r.Actor, Via: "redrive"}, redriveOf(r.ID))
}

// unblockPlan unblocks a task whose plan can be read again.
func (sm *submitter) unblockPlan(ctx context.Context, r api.RedriveRequest, sub *events.Submitted) (api.SubmitReply, error) {
	prog, err := sm.compiler.program(ctx, sub)
	if err != nil {
		return api.SubmitReply{}, unusablePlan(err)
	}
	reply := api.SubmitReply{ID: r.ID, Existing: true}
	err = sm.engine.change(ctx, r.ID, r.Actor, func(t *decide.Turn) error {
		t.Plan.Program, t.Plan.Unusable = prog, nil
		if t.Task.State == statemachine.Blocked && t.Task.Block == decide.BlockResource {
			t.Emit(events.TaskUnblocked, &events.Moved{Reason: "its plan can be read again"})
		}
		reply.State = t.Task.State
		return nil
	})
	return reply, err
}

// redriveOf returns the id of the first task that continues a failed task. It is derived from the id of the failed task. So a
// task is redriven only once, and a lookup of that id shows whether it was.
func redriveOf(id events.TaskID) events.TaskID { return events.KeyedTaskID("", "redrive:"+string(id)) }

// mayRedrive returns why a task cannot be redriven, or nil if it can.
func mayRedrive(e *entry) error {
	if e.task.State == statemachine.Failed {
		return nil
	}
	if doubtful := e.task.In(statemachine.StepInDoubt); len(doubtful) > 0 {
		return fault.New(fault.InDoubt, "it is unknown whether step %s took effect", doubtful[0].Key).
			WithHint("%s", resolveCommand(e.id, doubtful[0].Key))
	}
	if e.task.HasOpenQuestion() {
		return fault.New(fault.StateNotAllowed, "task %s waits for an answer", e.id).WithHint("orch questions %s", e.id)
	}
	return fault.New(fault.StateNotAllowed, "task %s is %s: it is not in the dead letter", e.id, e.task.State).
		WithHint("orch list --dead shows what is; orch explain %s", e.id)
}

// doubtfulStep returns a step that may have had its effect: a step in doubt, or a call with effects that was cancelled while it
// ran. Requested steps do not count, because their repetition is intended. It returns "" if there is no such step.
func doubtfulStep(t *statemachine.Task, requested map[string]bool) string {
	for _, key := range t.Order {
		s := t.Steps[key]
		begun := s.State == statemachine.StepCancelled && (s.RunsElsewhere() || !s.CalledAt.IsZero()) && decide.HasEffects(s)
		if (s.State == statemachine.StepInDoubt || begun) && !requested[key] && !requested[decide.ItemOf(key)] {
			return key
		}
	}
	return ""
}

// repeatedSteps returns the steps that a retry repeats: from, or all failed and cancelled steps if from is empty, and all steps
// that depend on one of them.
func repeatedSteps(e *entry, from string) (map[string]bool, error) {
	if from != "" && e.plan.Program.Node(from) == nil {
		return nil, fault.New(fault.NotFound, "the plan has no step %q", decide.Clip(from)).WithField("from")
	}
	again := map[string]bool{}
	for _, n := range e.plan.Program.Steps() {
		s := e.task.Steps[n.ID]
		again[n.ID] = n.ID == from || (from == "" && s != nil && (s.State == statemachine.StepFailed || s.State == statemachine.StepCancelled))
	}
	for grown := true; grown; {
		grown = false
		for _, n := range e.plan.Program.Steps() {
			if !again[n.ID] && slices.ContainsFunc(n.Needs, func(need string) bool { return again[need] }) {
				again[n.ID], grown = true, true
			}
		}
	}
	return again, nil
}

// reusable returns the recorded outputs that a retry can reuse. An approve step that covers repeated calls must request its
// approval again, because the grant belongs to the former task.
func reusable(e *entry, again map[string]bool) []events.Reused {
	var list []events.Reused
	for _, n := range e.plan.Program.Steps() {
		if s := e.task.Steps[n.ID]; s != nil && s.State == statemachine.StepSucceeded && !again[n.ID] && !coversAny(n, again) {
			list = append(list, events.Reused{Step: n.ID, From: e.id, Output: s.Output})
		}
	}
	return list
}

// coversAny reports whether an approve step covers calls of some steps.
func coversAny(n *plan.Node, steps map[string]bool) bool {
	return slices.ContainsFunc(n.Covers, func(c plan.Cover) bool { return steps[decide.TopOf(c)] })
}
