package orchestrator

import (
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// What a person has granted for good to their sessions is kept in a task of theirs that waits: its approvals are the grants, its
// history says who gave and who took back each of them (ADR 0033).

// maxStanding bounds the grants that a person has for good.
const maxStanding = 200

// standingLife is the longest that a task can wait.
const standingLife = 3650 * 24 * time.Hour

func standingPlan() map[string]any {
	return map[string]any{
		"orch": "v1", "name": "grants", "summary": "What is granted to all sessions of a person",
		"steps": []any{map[string]any{"id": "kept", "wait": map[string]any{"for": standingLife.String()}}},
	}
}

// openStanding makes the task that keeps the grants of whoever submitted a task. It is there before the decision, so that nothing but
// the decision can be refused.
func (ap *approver) openStanding(ctx context.Context, task events.TaskID) error {
	var of string
	err := ap.engine.look(ctx, task, func(e *entry) error { of = e.task.Requestor; return nil })
	if err != nil || !decide.IsUser(of) {
		return err // the decision is refused for an agent
	}
	id := decide.StandingID(of)
	_, err = ap.submitter.Submit(ctx, api.SubmitRequest{ID: id, Session: id, Name: api.GrantsName, Plan: decide.MustJSON(standingPlan()), Actor: of})
	if err != nil {
		return err
	}
	return ap.engine.look(ctx, id, func(e *entry) error {
		switch {
		case !decide.IsStanding(e.task) || e.task.State.Terminal():
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
func (ap *approver) keepStanding(ctx context.Context, task events.TaskID, id string) error {
	var of string
	var granted statemachine.Approval
	err := ap.engine.look(ctx, task, func(e *entry) error {
		granted, of = *e.task.Approval(id), e.task.Requestor
		return nil
	})
	if err != nil {
		return err
	}
	d := granted.Decision
	granted.Step, granted.Scopes, granted.Offers, granted.Details = "", d.Always, nil, events.Value{}
	return ap.engine.change(ctx, decide.StandingID(of), d.Approver, func(t *decide.Turn) error {
		have := scopes(t.Task)
		if granted.Scopes = slices.DeleteFunc(slices.Clone(d.Always), func(s string) bool { return slices.Contains(have, s) }); len(granted.Scopes) > 0 {
			t.Approvals().Adopt(&granted, "")
		}
		return nil
	})
}

// addStanding adds to a call of a session what is granted for good to whoever has the session. The task that keeps it is open, so one
// that is not at hand does not exist. What the node would not offer now does not hold now: nothing with four eyes, and not its root.
func (ap *approver) addStanding(ctx context.Context, of string, call *work.Call) error {
	id := decide.StandingID(of)
	ap.lock()
	known := ap.engine.tasks[id] != nil || ap.engine.keyring.isUnread(id) || ap.engine.asleep[id] != nil
	ap.unlock()
	if !known || ap.cfg.FourEyes {
		return nil
	}
	err := ap.engine.look(ctx, id, func(e *entry) error {
		if open := slices.DeleteFunc(scopes(e.task), ap.rules.OpensRoot); decide.IsStanding(e.task) && len(open) > 0 {
			call.Access = withScopes(call.Access, open)
		}
		return nil
	})
	if absent(err) {
		return nil
	}
	return err
}
