package orchestrator

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// What a person has granted for good to their sessions is kept in a task of theirs that waits: its approvals are the grants, its
// history says who gave and who took back each of them (ADR 0033).

// maxStanding bounds the grants that a person has for good.
const maxStanding = 200

// standingLife is the longest that a task can wait.
const standingLife = 3650 * 24 * time.Hour

// standingID is the task that keeps the grants of a person.
func standingID(of string) events.TaskID { return events.KeyedTaskID(of, api.GrantsName) }

func isStanding(t *statemachine.Task) bool {
	return isSession(t) && t.Submitted.Name == api.GrantsName && t.ID == standingID(t.Requestor)
}

func standingPlan() map[string]any {
	return map[string]any{
		"orch": "v1", "name": "grants", "summary": "What is granted to all sessions of a person",
		"steps": []any{map[string]any{"id": "kept", "wait": map[string]any{"for": standingLife.String()}}},
	}
}

// lasting are those offers of an approval that may be opened for all sessions of whoever submitted its task: not the root as a whole,
// and nothing for agents or where several people have to agree.
func (r *rules) lasting(t *statemachine.Task, a *statemachine.Approval) []string {
	if contextOf(t) == "" || !isUser(t.Requestor) || r.fourEyes || a.Quorum > 1 || len(a.From) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(a.Offers), r.opensRoot)
}

// opensRoot reports whether a scope opens all of the root.
func (r *rules) opensRoot(scope string) bool {
	place, ok := strings.CutPrefix(scope, "path ")
	return ok && r.root != "" && strings.HasPrefix(r.root+"/", strings.TrimSuffix(place, "/")+"/")
}

// mayLast refuses to open for good what may not be.
func (t *reading) mayLast(a *statemachine.Approval, always []string) error {
	offers := t.rules.lasting(t.task, a)
	for _, scope := range always {
		if !slices.Contains(offers, scope) {
			return fault.New(fault.ValidationError, "the approval does not offer %q for good", clip(scope)).WithField("always").
				WithHint("for good it offers %s", orNothing(offers))
		}
	}
	return nil
}

// openStanding makes the task that keeps the grants of whoever submitted a task. It is there before the decision, so that nothing but
// the decision can be refused.
func (o *Orchestrator) openStanding(ctx context.Context, task events.TaskID) error {
	var of string
	err := o.look(ctx, task, func(e *entry) error { of = e.task.Requestor; return nil })
	if err != nil || !isUser(of) {
		return err // the decision is refused for an agent
	}
	id := standingID(of)
	_, err = o.Submit(ctx, api.SubmitRequest{ID: id, Session: id, Name: api.GrantsName, Plan: mustJSON(standingPlan()), Actor: of})
	if err != nil {
		return err
	}
	return o.look(ctx, id, func(e *entry) error {
		switch {
		case !isStanding(e.task) || e.task.State.Terminal():
			return fault.New(fault.Conflict, "the task %s does not keep the grants of %s", id, of).WithField("always")
		case len(standing(e.task)) >= maxStanding:
			return fault.New(fault.QuotaExceeded, "%s has %d grants for good, the limit", of, maxStanding).WithField("always").
				WithHint("orch grants lists them, orch revoke takes one back")
		}
		return nil
	})
}

// standing are the grants of a session, or of a person, that somebody can take back.
func standing(t *statemachine.Task) (list []*statemachine.Approval) {
	for _, a := range t.Approvals {
		if a.Status == statemachine.ApprovalGranted && len(a.Scopes) > 0 {
			list = append(list, a)
		}
	}
	return list
}

// keepStanding opens for good what a decision has opened for good. It is done once.
func (o *Orchestrator) keepStanding(ctx context.Context, task events.TaskID, id string) error {
	var of string
	var granted statemachine.Approval
	err := o.look(ctx, task, func(e *entry) error {
		granted, of = *e.task.Approval(id), e.task.Requestor
		return nil
	})
	if err != nil {
		return err
	}
	d := granted.Decision
	granted.Step, granted.Scopes, granted.Offers, granted.Details = "", d.Always, nil, events.Value{}
	return o.change(ctx, standingID(of), d.Approver, func(t *turn) error {
		have := scopes(t.task)
		if granted.Scopes = slices.DeleteFunc(slices.Clone(d.Always), func(s string) bool { return slices.Contains(have, s) }); len(granted.Scopes) > 0 {
			t.adopt(&granted, "")
		}
		return nil
	})
}

// addStanding adds to a call of a session what is granted for good to whoever has the session. The task that keeps it is open, so one
// that is not at hand does not exist. What the node would not offer now does not hold now: nothing with four eyes, and not its root.
func (o *Orchestrator) addStanding(ctx context.Context, of string, call *work.Call) error {
	id := standingID(of)
	o.lock()
	known := o.tasks[id] != nil || o.isUnread(id) || o.asleep[id] != nil
	o.unlock()
	if !known || o.cfg.FourEyes {
		return nil
	}
	err := o.look(ctx, id, func(e *entry) error {
		if open := slices.DeleteFunc(scopes(e.task), o.rules.opensRoot); isStanding(e.task) && len(open) > 0 {
			call.Open = withScopes(call.Open, open)
		}
		return nil
	})
	if absent(err) {
		return nil
	}
	return err
}

// revoke takes back a grant of a session, or one for good. A call that has begun with it goes on.
func (t *turn) revoke(a *statemachine.Approval, r api.DecideRequest) error {
	switch {
	case !isSession(t.task) || len(a.Scopes) == 0:
		return fault.New(fault.Conflict, "approval %s opens nothing for a session or for good", a.ID).
			WithHint("orch grants lists what can be revoked; orch cancel %s ends a task", t.task.ID)
	case a.Status != statemachine.ApprovalGranted:
		return fault.New(fault.Conflict, "approval %s is %s", a.ID, a.Status)
	}
	t.emit(events.ApprovalRevoked, &events.Decision{ID: a.ID, Approver: r.Actor, Reason: t.rules.cleanText(r.Reason), At: t.now})
	return nil
}

// keptOpen refuses to end the task that keeps the grants of a person.
func (t *reading) keptOpen() error {
	if !isStanding(t.task) {
		return nil
	}
	return fault.New(fault.Conflict, "%s keeps what is granted to all sessions of %s", t.task.ID, t.task.Requestor).
		WithHint("orch grants lists it, orch revoke ID takes one back")
}
