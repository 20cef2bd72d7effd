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

// MayDecide returns why the actor must not decide about an approval, or nil: FORBIDDEN for this actor (S0-168), CONFLICT if the
// approval was decided or has expired (S0-166).
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

// Behind returns the identities for which a task requests an approval: the submitters of the task and of its topmost parent,
// and the identity that made the call inside the task.
func (t *Reading) Behind(a *statemachine.Approval) []string {
	identities := []string{t.Task.Requestor, t.Facts.Requester()}
	if s := t.Task.Steps[a.Step]; s != nil {
		identities = append(identities, s.By)
	}
	identities = slices.DeleteFunc(identities, func(who string) bool { return who == "" })
	slices.Sort(identities)
	return slices.Compact(identities)
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

// checkOpens returns VALIDATION_ERROR for scopes that an approval does not offer.
func checkOpens(a *statemachine.Approval, opens []string) error {
	for _, scope := range opens {
		if !slices.Contains(a.Offers, scope) {
			return fault.New(fault.ValidationError, "the approval does not offer %q", Clip(scope)).WithField("opens").
				WithHint("it offers %s", joinOrNone(a.Offers))
		}
	}
	return nil
}

// checkLasting returns VALIDATION_ERROR for scopes that must not be opened permanently.
func (t Approvals) checkLasting(a *statemachine.Approval, always []string) error {
	offers := t.Rules.Lasting(t.Task, a)
	for _, scope := range always {
		if !slices.Contains(offers, scope) {
			return fault.New(fault.ValidationError, "the approval does not offer %q permanently", Clip(scope)).WithField("always").
				WithHint("permanently it offers %s", joinOrNone(offers))
		}
	}
	return nil
}

// Revoke withdraws a grant of a session, or a permanent grant. A call that was started with the grant continues.
func (t Approvals) Revoke(a *statemachine.Approval, r api.DecideRequest) error {
	switch {
	case !IsSession(t.Task) || len(a.Scopes) == 0:
		return fault.New(fault.Conflict, "approval %s opens nothing for a session or permanently", a.ID).
			WithHint("orch grants lists what can be revoked; orch cancel %s ends a task", t.Task.ID)
	case a.Status != statemachine.ApprovalGranted:
		return fault.New(fault.Conflict, "approval %s is %s", a.ID, a.Status)
	}
	t.Emit(events.ApprovalRevoked, &events.Decision{ID: a.ID, Approver: r.Actor, Reason: t.Rules.CleanText(r.Reason), At: t.Now})
	return nil
}

// Lend returns the grant of this session that matches the request for approval in an outcome, or nil. It records that the grant
// was used. to is the task of the call.
func (t Approvals) Lend(to *Reading, r *work.Outcome) *statemachine.Approval {
	step := to.Task.Steps[r.Step]
	if r.ApprovalRequest == nil || step == nil {
		return nil
	}
	a := t.Task.Approval(t.matchingApproval(step, r.ApprovalRequest))
	if a == nil || a.Status != statemachine.ApprovalGranted || !to.sameTerms(step, a) {
		return nil
	}
	t.Emit(events.ApprovalUsed, &events.Used{ID: a.ID, By: r.Task})
	return a
}

// Adopt copies a grant from a session into this task, for the call of a step, and returns the id of the copy.
func (t Approvals) Adopt(lent *statemachine.Approval, step string) string {
	a, d := lent.Approval, *lent.Decision
	a.ID = events.ApprovalIDFrom(t.Task.ID, t.Rules.Entropy)
	d.ID, a.Step = a.ID, step
	t.Emit(events.ApprovalRequested, &a)
	t.Emit(events.ApprovalGranted, &d)
	return a.ID
}
