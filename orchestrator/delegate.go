package orchestrator

import (
	"context"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/traces"
	"github.com/orch-dev/orch/work"
)

// An agent can submit a task for a call that it holds. The task of that call is then the parent of the delegated task. A
// delegated task has at most the access and the deadline of its parent. It is cancelled when the parent fails or is cancelled.

const (
	// maxLevel limits the nesting of agent calls.
	maxLevel = 8
	// maxDelegated limits the open tasks that are delegated for one task.
	maxDelegated = 1000
)

// boundsOf returns the bounds of a requested task: those in the request, and those of the call that the task is delegated for.
// It returns FORBIDDEN if the actor does not hold that call.
func (sm *submitter) boundsOf(ctx context.Context, r api.SubmitRequest) (*submitExtra, error) {
	call := sm.callFor(r)
	if call == nil && len(r.Tools) == 0 && r.Within == nil {
		return unbounded, nil
	}
	extra := &submitExtra{tools: r.Tools, within: r.Within}
	if call == nil {
		return extra, nil
	}
	return extra, sm.boundByCall(ctx, *call, r.Actor, extra)
}

// boundByCall adds the bounds of the call that an agent submits a task for.
func (sm *submitter) boundByCall(ctx context.Context, call work.Ref, actor string, extra *submitExtra) error {
	if !decide.IsAgent(actor) {
		return errNotHeld(actor, call)
	}
	err := sm.engine.inspect(ctx, call.Task, func(e *entry) error { return sm.delegate(e, call, actor, extra) })
	if absent(err) {
		err = errNotHeld(actor, call)
	}
	return err
}

// callFor returns the call that a request is for: the call that it names, or the only call that the agent holds. It returns nil
// for none.
func (sm *submitter) callFor(r api.SubmitRequest) *work.Ref {
	if r.For != nil || r.Session != "" && r.Session == r.ID || !decide.IsAgent(r.Actor) {
		return r.For
	}
	sm.lock()
	defer sm.unlock()
	if calls := sm.engine.queue.dispatcher.CallsOf(r.Actor); len(calls) == 1 {
		return &calls[0]
	}
	return nil
}

// errNotHeld returns the error for a call that the actor does not hold. It does not reveal whether the call exists.
func errNotHeld(actor string, call work.Ref) error {
	return fault.New(fault.Forbidden, "%s does not hold the call %s", actor, decide.Clip(call.String())).WithField("for").WithReason("CALL_NOT_HELD").
		WithHint("name a call that you were given and have not reported yet")
}

// delegate sets the parent and the bounds of a task that an agent submits for a call. It returns FORBIDDEN if the agent does
// not hold the call, and QUOTA_EXCEEDED if the parent task has reached a limit. mu must be held.
func (sm *submitter) delegate(e *entry, call work.Ref, actor string, extra *submitExtra) error {
	if !sm.holdsCall(e, call, actor) {
		return errNotHeld(actor, call)
	}
	above := e.task.Submitted
	if extra.tools = intersectTools(above.Tools, extra.tools); len(extra.tools) == 0 && len(above.Tools) > 0 {
		return fault.New(fault.Forbidden, "none of the tools that %s may call is one that task %s may call", actor, e.id).WithField("for")
	}
	if len(sm.engine.links.delegated[e.id]) >= maxDelegated {
		return fault.New(fault.QuotaExceeded, "%d tasks of task %s are open", maxDelegated, e.id).WithField("for").WithHint("wait for some of them")
	}
	if above.MaxSteps > 0 {
		extra.maxSteps = above.MaxSteps - e.task.Calls
		if extra.maxSteps < 1 {
			return fault.New(fault.QuotaExceeded, "task %s has made all calls that it may make", e.id).WithField("for").WithHint("limits.max_steps of its plan")
		}
	}
	extra.parent = &events.Parent{Task: e.id, Step: call.Step, Attempt: call.Attempt, Level: levelOf(above) + 1, Requester: actor, Labels: costs.OriginOf(e.task).Labels}
	extra.parent.Trace, extra.parent.TraceState = traces.Below(e.id, above), traces.StateBelow(above)
	extra.limited, extra.limitKey, extra.programs = above.Limited, above.LimitKey, programsOf(above)
	within := extra.within
	extra.within = above.Within
	e.bind(call.Step, extra)
	extra.within = append(extra.within, within...)
	return nil
}

// intersectTools returns the tools that both lists allow. An empty list allows all.
func intersectTools(above, own []string) []string {
	switch {
	case len(above) == 0:
		return own
	case len(own) == 0:
		return above
	default:
		return slices.DeleteFunc(slices.Clone(own), func(name string) bool { return !slices.Contains(above, name) })
	}
}

// holdsCall reports whether an agent holds a call.
func (sm *submitter) holdsCall(e *entry, call work.Ref, actor string) bool {
	r := e.read()
	return r.Holds(call, actor)
}

// levelOf returns the number of agent calls above a task.
func levelOf(s *events.Submitted) int {
	if s.Parent == nil {
		return 0
	}
	return s.Parent.Level
}

// checkLevel returns QUOTA_EXCEEDED for a plan with agent calls if its task is already at maxLevel. Only agent calls lead to
// delegated tasks.
func (sm *submitter) checkLevel(p *plan.Plan, parent *events.Parent) error {
	if parent == nil || parent.Level < maxLevel {
		return nil
	}
	for _, name := range p.Tools() {
		if tool, ok := sm.cfg.Catalogue.Get(name); ok && tool.Spec().ForAgents {
			return fault.New(fault.QuotaExceeded, "the calls of agents nest at most %d deep", maxLevel).WithField("plan").WithReason("DEPTH_LIMIT_EXCEEDED").
				WithHint("do the work in the call that you hold, or hand it on")
		}
	}
	return nil
}

// createDelegated creates a delegated task if the agent still holds the call. mu must be held.
func (sm *submitter) createDelegated(s *submission, actor string, extra *submitExtra, done func(api.SubmitReply, error)) {
	p := extra.parent
	call := work.Ref{Task: p.Task, Step: p.Step, Attempt: p.Attempt}
	sm.engine.withEntry(p.Task, func(e *entry, err error) {
		if err == nil && !sm.holdsCall(e, call, actor) {
			err = errNotHeld(actor, call)
		}
		if err != nil {
			done(api.SubmitReply{}, err)
			return
		}
		sm.create(s, actor, extra, done)
	})
}

// cancelDelegated cancels the delegated tasks of a step, or those of all steps of the task if step is empty. mu must be held.
func (en *engine) cancelDelegated(id events.TaskID, step, reason string) {
	for _, child := range sortedKeys(en.links.delegated[id]) {
		if step == "" || en.links.delegated[id][child] == step {
			en.cancelLater(child, reason)
		}
	}
}

// parentStopped is the reason of delegated tasks that are cancelled together with the parent task.
const parentStopped = "the task that it was started for has stopped"

// delegatedWanted reports whether a delegated task may continue. e is the entry of its parent task.
func delegatedWanted(e *entry, parent *events.Parent) bool {
	if e.task.Cancelling || e.task.State.Terminal() && e.task.State != statemachine.Done {
		return false
	}
	s := e.task.Steps[parent.Step]
	return s == nil || s.State != statemachine.StepSkipped && s.State != statemachine.StepCancelled
}

// delegated reports whether an agent submits the task for a call that it holds.
func (x *submitExtra) delegated() bool { return x.parent != nil && x.parent.Delegated() }

// creator returns the function that creates the task: create, createChild or createDelegated.
func (sm *submitter) creator(extra *submitExtra) func(*submission, string, *submitExtra, func(api.SubmitReply, error)) {
	switch {
	case extra.delegated():
		return sm.createDelegated
	case extra.parent != nil:
		return sm.createChild
	default:
		return sm.create
	}
}
