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

// The permanent grants of a person to their sessions are stored in a waiting task of that person. Its approvals are the grants,
// and its history records who gave and who revoked each of them (ADR 0033).

// maxStanding limits the permanent grants of a person.
const maxStanding = 200

// standingLife is the longest time that a task can wait.
const standingLife = 3650 * 24 * time.Hour

func standingPlan() map[string]any {
	return map[string]any{
		"orch": "v1", "name": "grants", "summary": "What is granted to all sessions of a person",
		"steps": []any{map[string]any{"id": "kept", "wait": map[string]any{"for": standingLife.String()}}},
	}
}

// openStanding creates the task for the grants of whoever submitted a task. It is created before the decision, so that only the
// decision itself can be refused.
func (ap *approver) openStanding(ctx context.Context, task events.TaskID) error {
	var of string
	err := ap.engine.inspect(ctx, task, func(e *entry) error { of = e.task.Requestor; return nil })
	if err != nil || !decide.IsUser(of) {
		return err // agents may not decide this
	}
	id := decide.StandingID(of)
	_, err = ap.submitter.Submit(ctx, api.SubmitRequest{ID: id, Session: id, Name: api.GrantsName, Plan: decide.MustJSON(standingPlan()), Actor: of})
	if err != nil {
		return err
	}
	return ap.engine.inspect(ctx, id, func(e *entry) error {
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

// standing returns the grants of a session, or of a person, that can be revoked.
func standing(t *statemachine.Task) (list []*statemachine.Approval) {
	for _, a := range t.Approvals {
		if a.Status == statemachine.ApprovalGranted && len(a.Scopes) > 0 {
			list = append(list, a)
		}
	}
	return list
}

// keepStanding stores the permanent grants of a decision. Repeating it changes nothing.
func (ap *approver) keepStanding(ctx context.Context, task events.TaskID, id string) error {
	var of string
	var granted statemachine.Approval
	err := ap.engine.inspect(ctx, task, func(e *entry) error {
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

// addStanding adds the permanent grants of the session's owner to a call of a session. The task that stores them is always
// open; if it is not in memory, it does not exist. Grants that the node would not offer now are left out: all of them with four
// eyes, and those for its root.
func (ap *approver) addStanding(ctx context.Context, of string, call *work.Call) error {
	id := decide.StandingID(of)
	ap.lock()
	known := ap.engine.tasks[id] != nil || ap.engine.keyring.isUnread(id) || ap.engine.asleep[id] != nil
	ap.unlock()
	if !known || ap.cfg.FourEyes {
		return nil
	}
	err := ap.engine.inspect(ctx, id, func(e *entry) error {
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
