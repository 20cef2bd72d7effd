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

// A standing grant is a permanent grant to all sessions of a person. The standing grants of a person are the approvals of one
// task that only waits. Its history records who granted and who revoked each of them (ADR 0033).

// maxStanding limits the standing grants of a person.
const maxStanding = 200

// standingLife is the longest time that a task can wait.
const standingLife = 3650 * 24 * time.Hour

func standingPlan() map[string]any {
	return map[string]any{
		"orch": "v1", "name": "grants", "summary": "What is granted to all sessions of a person",
		"steps": []any{map[string]any{"id": "kept", "wait": map[string]any{"for": standingLife.String()}}},
	}
}

// createStanding creates the task for the standing grants of the person who submitted a task, if it does not exist yet. The
// caller does that before it records a decision, so that storing the grant afterwards cannot fail for lack of the task.
func (ap *approver) createStanding(ctx context.Context, task events.TaskID) error {
	var owner string
	err := ap.engine.inspect(ctx, task, func(e *entry) error { owner = e.task.Requestor; return nil })
	if err != nil || !decide.IsUser(owner) {
		return err // agents have no standing grants
	}
	id := decide.StandingID(owner)
	_, err = ap.submitter.Submit(ctx, api.SubmitRequest{ID: id, Session: id, Name: api.GrantsName, Plan: decide.MustJSON(standingPlan()), Actor: owner})
	if err != nil {
		return err
	}
	return ap.engine.inspect(ctx, id, func(e *entry) error {
		switch {
		case !decide.IsStanding(e.task) || e.task.State.Terminal():
			return fault.New(fault.Conflict, "the task %s does not keep the grants of %s", id, owner).WithField("always")
		case len(revocableGrants(e.task)) >= maxStanding:
			return fault.New(fault.QuotaExceeded, "%s has %d permanent grants, the limit", owner, maxStanding).WithField("always").
				WithHint("orch grants lists them, orch revoke takes one back")
		}
		return nil
	})
}

// revocableGrants returns the granted approvals with scopes of a task that represents a session or stores standing grants.
func revocableGrants(t *statemachine.Task) (list []*statemachine.Approval) {
	for _, a := range t.Approvals {
		if a.Status == statemachine.ApprovalGranted && len(a.Scopes) > 0 {
			list = append(list, a)
		}
	}
	return list
}

// storeStanding stores the standing grants of a decision. A repetition changes nothing.
func (ap *approver) storeStanding(ctx context.Context, task events.TaskID, id string) error {
	var owner string
	var granted statemachine.Approval
	err := ap.engine.inspect(ctx, task, func(e *entry) error {
		granted, owner = *e.task.Approval(id), e.task.Requestor
		return nil
	})
	if err != nil {
		return err
	}
	d := granted.Decision
	granted.Step, granted.Scopes, granted.Offers, granted.Details = "", d.Always, nil, events.Value{}
	return ap.engine.change(ctx, decide.StandingID(owner), d.Approver, func(t *decide.Turn) error {
		have := grantedScopes(t.Task)
		if granted.Scopes = slices.DeleteFunc(slices.Clone(d.Always), func(s string) bool { return slices.Contains(have, s) }); len(granted.Scopes) > 0 {
			t.Approvals().Adopt(&granted, "")
		}
		return nil
	})
}

// addStanding adds the standing grants of the owner of a session to a call of the session. The task that stores them is always
// open; if it is not in memory, it does not exist. Grants that the node would no longer offer are left out: all grants with
// Config.FourEyes, and grants for the root.
func (ap *approver) addStanding(ctx context.Context, owner string, call *work.Call) error {
	id := decide.StandingID(owner)
	ap.lock()
	known := ap.engine.tasks[id] != nil || ap.engine.concurrencyKeys.isUnread(id) || ap.engine.asleep[id] != nil
	ap.unlock()
	if !known || ap.cfg.FourEyes {
		return nil
	}
	err := ap.engine.inspect(ctx, id, func(e *entry) error {
		if scopes := slices.DeleteFunc(grantedScopes(e.task), ap.rules.OpensRoot); decide.IsStanding(e.task) && len(scopes) > 0 {
			call.Access = withScopes(call.Access, scopes)
		}
		return nil
	})
	if absent(err) {
		return nil
	}
	return err
}
