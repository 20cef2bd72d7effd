package decide

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// MayDecide returns why the actor may not decide about an approval: FORBIDDEN for this actor (S0-168), CONFLICT if it was
// decided or has expired (S0-166).
func (t Approvals) MayDecide(a *statemachine.Approval, r api.DecideRequest) error {
	switch {
	case len(a.From) > 0 && !slices.Contains(a.From, r.Actor):
		return fault.New(fault.Forbidden, "approval %s is for %s to decide about, not for %s", a.ID, strings.Join(a.From, " or "), r.Actor)
	case r.Actor == a.Requester:
		return fault.New(fault.Forbidden, "%s asks for this approval and cannot decide about it", r.Actor)
	case t.Rules.FourEyes && slices.Contains(t.Behind(a), r.Actor):
		return fault.New(fault.Forbidden, "%s submitted the task or made the call, and this node wants somebody else to decide", r.Actor).
			WithHint("four_eyes in the settings of the node")
	case a.Status == statemachine.ApprovalPending && !t.Now.Before(a.ExpiresAt):
		return fault.New(fault.Conflict, "approval %s expired at %s", a.ID, Clock(a.ExpiresAt))
	case a.Status == statemachine.ApprovalExpired:
		return fault.New(fault.Conflict, "approval %s expired at %s", a.ID, Clock(a.DecidedAt)).WithHint("orch resume %s asks again", t.Task.ID)
	case a.Status != statemachine.ApprovalPending:
		return fault.New(fault.Conflict, "%s has %s approval %s at %s", a.Decision.Approver, a.Status, a.ID, Clock(a.DecidedAt))
	case slices.ContainsFunc(a.Votes, func(v events.Decision) bool { return v.Approver == r.Actor }):
		return fault.New(fault.Conflict, "%s has agreed already; %d approvers have to", r.Actor, a.Quorum)
	}
	return nil
}

// Behind returns the people for whom a task requests an approval: who submitted it or its topmost parent, and who made the call
// inside it.
func (t *Reading) Behind(a *statemachine.Approval) []string {
	people := []string{t.Task.Requestor, t.Facts.Requester()}
	if s := t.Task.Steps[a.Step]; s != nil {
		people = append(people, s.By)
	}
	people = slices.DeleteFunc(people, func(who string) bool { return who == "" })
	slices.Sort(people)
	return slices.Compact(people)
}

// DecideApproval records a decision, or a vote while the quorum is not reached.
func (t Approvals) DecideApproval(a *statemachine.Approval, r api.DecideRequest, form json.RawMessage) error {
	d := &events.Decision{ID: a.ID, Approver: r.Actor, Reason: t.Rules.CleanText(r.Reason), At: t.Now}
	if r.As != "granted" {
		if r.As == "revise" {
			d.Disposition = r.As
		}
		t.Emit(events.ApprovalRejected, d)
		return nil
	}
	if err := plan.CheckForm(a.Form.Raw, form); err != nil {
		return err
	}
	if err := checkOpens(a, r.Opens); err != nil {
		return err
	}
	if err := t.checkLasting(a, r.Always); err != nil {
		return err
	}
	d.Opens, d.Always = r.Opens, r.Always
	d.Form = t.value(form)
	if len(a.Votes)+1 < a.Quorum {
		t.Emit(events.ApprovalVoted, d)
		return nil
	}
	d.ValidUntil = new(events.Time(t.Now.Add(lifeOf(a))))
	t.Emit(events.ApprovalGranted, d)
	return nil
}

// checkOpens refuses scopes that an approval does not offer.
func checkOpens(a *statemachine.Approval, opens []string) error {
	for _, scope := range opens {
		if !slices.Contains(a.Offers, scope) {
			return fault.New(fault.ValidationError, "the approval does not offer %q", Clip(scope)).WithField("opens").
				WithHint("it offers %s", joinOrNone(a.Offers))
		}
	}
	return nil
}

// checkLasting refuses scopes that may not be opened permanently.
func (t Approvals) checkLasting(a *statemachine.Approval, always []string) error {
	offers := t.Rules.Lasting(t.Task, a)
	for _, scope := range always {
		if !slices.Contains(offers, scope) {
			return fault.New(fault.ValidationError, "the approval does not offer %q for good", Clip(scope)).WithField("always").
				WithHint("for good it offers %s", joinOrNone(offers))
		}
	}
	return nil
}

// Revoke withdraws a grant of a session, or a permanent one. A call that has started with it continues.
func (t Approvals) Revoke(a *statemachine.Approval, r api.DecideRequest) error {
	switch {
	case !IsSession(t.Task) || len(a.Scopes) == 0:
		return fault.New(fault.Conflict, "approval %s opens nothing for a session or for good", a.ID).
			WithHint("orch grants lists what can be revoked; orch cancel %s ends a task", t.Task.ID)
	case a.Status != statemachine.ApprovalGranted:
		return fault.New(fault.Conflict, "approval %s is %s", a.ID, a.Status)
	}
	t.Emit(events.ApprovalRevoked, &events.Decision{ID: a.ID, Approver: r.Actor, Reason: t.Rules.CleanText(r.Reason), At: t.Now})
	return nil
}

// Lend uses up the grant of the session that matches the request of a call, nil if there is none.
func (t Approvals) Lend(to *Reading, r *work.Outcome) *statemachine.Approval {
	step := to.Task.Steps[r.Step]
	if r.ApprovalRequest == nil || step == nil {
		return nil
	}
	a := t.Task.Approval(t.matching(step, r.ApprovalRequest))
	if a == nil || a.Status != statemachine.ApprovalGranted || !to.sameTerms(step, a) {
		return nil
	}
	t.Emit(events.ApprovalUsed, &events.Used{ID: a.ID, By: r.Task})
	return a
}

// Adopt copies a grant of the session into the task whose call it lets through.
func (t Approvals) Adopt(lent *statemachine.Approval, step string) string {
	a, d := lent.Approval, *lent.Decision
	a.ID = events.ApprovalIDFrom(t.Task.ID, t.Rules.Entropy)
	d.ID, a.Step = a.ID, step
	t.Emit(events.ApprovalRequested, &a)
	t.Emit(events.ApprovalGranted, &d)
	return a.ID
}
