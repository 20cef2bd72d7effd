package decide

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// The consequences of a rejected and of an expired approval.
const (
	onRejectFail     = "fail"
	onRejectContinue = "continue"

	onExpiryBlock    = "block"
	onExpiryReject   = "reject"
	onExpiryApprove  = "approve"
	onExpiryDefault  = "default"
	onExpiryEscalate = "escalate"
	onExpiryContinue = "continue"
)

// grantLife is how long a grant is valid (M-3).
const grantLife = time.Hour

// BlockExpired is the kind of block of a task that waits for an expired approval.
const BlockExpired = "expired"

// approvalTime returns the default time after which a pending approval of a type expires (M-3).
func approvalTime(kind string) time.Duration {
	switch kind {
	case "checkpoint":
		return 30 * time.Minute
	case "destructive_operation":
		return 5 * time.Minute
	default:
		return time.Hour
	}
}

// park parks a call until it is approved. Instead of requesting a new approval, it uses a matching grant, a pending approval
// for the same scopes, or lent, a grant of the session.
func (t Approvals) park(s *statemachine.Step, ask *work.ApprovalRequest, lent *statemachine.Approval) {
	id := t.matchingApproval(s, ask)
	if id == "" && lent != nil {
		id = t.Adopt(lent, s.Key)
	}
	if id == "" {
		id = events.ApprovalIDFrom(t.Task.ID, t.Rules.Entropy)
		t.request(t.applyTerms(s, &events.Approval{
			ID: id, Step: s.Key, Type: ask.Type, Tool: s.Tool, ArgsSHA256: ask.ArgsSHA256, Scopes: ask.Scopes, Offers: t.offers(ask),
			Description: "allow " + s.Tool + " in step " + s.Key, Rationale: ask.Reason + t.coverDiffers(s),
			Details:  detailsOf(ask),
			Priority: approvalPriority(t.Task.Submitted.Priority), Risk: ask.Risk,
			ExpiresAt: t.Now.Add(approvalTime(ask.Type)), OnReject: onRejectContinue, OnExpiry: onExpiryBlock,
		}))
	}
	t.Emit(events.StepParked, &events.Parked{Step: s.Key, Attempt: s.Attempt, Approval: id})
}

// detailsOf returns the rule that requires an approval, and what the call affects, if that is known.
func detailsOf(ask *work.ApprovalRequest) events.Value {
	return events.Inline(MustJSON(struct {
		Impact []string `json:"impact,omitempty"`
		Rule   string   `json:"rule"`
	}{ask.Impact, ask.Rule}))
}

// matchingApproval returns the id of an approval that a request can share, or "" if it needs a new one.
func (t Approvals) matchingApproval(s *statemachine.Step, ask *work.ApprovalRequest) string {
	for _, a := range t.Task.Approvals {
		samePending := len(ask.Scopes) > 0 && slices.Equal(a.Scopes, ask.Scopes) && a.Status == statemachine.ApprovalPending
		usableGrant := a.Step == "" && a.Usable(t.Now) && len(ask.Scopes) == 0 && a.Tool == s.Tool && a.ArgsSHA256 == ask.ArgsSHA256
		if !t.sameTerms(s, a) {
			continue
		}
		if samePending || usableGrant {
			return a.ID
		}
	}
	return ""
}

// approvalPriority converts the priority of a task to that of an approval.
func approvalPriority(priority string) string {
	if priority == "normal" {
		return "medium"
	}
	return priority
}

// request adds a pending approval, and moves the task to AWAITING_APPROVAL if table T-1 allows that.
func (t Approvals) request(a *events.Approval) {
	a.Requester = cmp.Or(a.Requester, "task:"+string(t.Task.ID))
	a.ExpiresAt = events.Time(a.ExpiresAt)
	if wait := a.ExpiresAt.Sub(t.Now); a.RemindAt == nil {
		a.RemindAt = new(events.Time(t.Now.Add(wait / 2)))
	}
	t.Emit(events.ApprovalRequested, a)
	t.awaitApproval(a.ID)
}

// awaitApproval moves the task to AWAITING_APPROVAL if its state allows that. id is the pending approval, or "" for a call that
// uses a grant.
func (t Approvals) awaitApproval(id string) {
	if statemachine.Check(t.Task.State, events.TaskApprovalRequested) != nil || IsSession(t.Task) {
		return
	}
	reason := "the grant is being used"
	if id != "" {
		reason = "approval " + id + " is pending"
	}
	t.Emit(events.TaskApprovalRequested, &events.Moved{Reason: reason})
}

// termsOf returns the approval section of a step's plan node, or nil.
func (t *Reading) termsOf(s *statemachine.Step) *plan.Approval {
	if n := t.NodeByKey(s.Key); n != nil && s.Purpose == "" {
		return n.Approval
	}
	return nil
}

// applyTerms applies the approval section of the plan to the approval of a call.
func (t Approvals) applyTerms(s *statemachine.Step, a *events.Approval) *events.Approval {
	terms := t.termsOf(s)
	if terms == nil {
		return a
	}
	if terms.Timeout > 0 {
		a.ExpiresAt = t.Now.Add(terms.Timeout.Std())
	}
	a.From, a.Quorum, a.OnExpiry = terms.From, terms.Quorum, onExpiryOf(terms)
	return a
}

// onExpiryOf returns the value of Approval.OnExpiry for the approval section of a plan.
func onExpiryOf(terms *plan.Approval) string {
	switch terms.OnExpiry {
	case "fail":
		return onExpiryReject
	case "":
		return onExpiryBlock
	default:
		return terms.OnExpiry
	}
}

// sameTerms reports whether an approval satisfies the approval section of a step, so that its call may share the approval.
func (t *Reading) sameTerms(s *statemachine.Step, a *statemachine.Approval) bool {
	terms := t.termsOf(s)
	if terms == nil {
		return true
	}
	return max(a.Quorum, 1) >= max(terms.Quorum, 1) && slices.Equal(a.From, terms.From) && a.OnExpiry == onExpiryOf(terms)
}

// keepsGrant reports whether the next attempt can reuse the grant of a failed attempt: the failed attempt was approved and has
// certainly ended.
func (t *Reading) keepsGrant(s *statemachine.Step, class string) bool {
	return s.Approval != "" && s.State == statemachine.StepRunning && !plan.LeavesDoubt(class)
}

// offers returns the scopes that an approval may open for the session of its task; none for a task outside a session.
func (t Approvals) offers(ask *work.ApprovalRequest) []string {
	if ContextOf(t.Task) == "" {
		return nil
	}
	return ask.Offers
}

// startApprove starts an approve step of the plan.
func (t Approvals) startApprove(n *plan.Node, key string, sc plan.Scope) {
	q, err := n.Question(sc)
	var calls covered
	if err == nil {
		calls, err = t.coveredCalls(n)
	}
	if err = t.OutcomeOf(err, q.Show, q.Default, []byte(q.Description), []byte(q.Rationale), calls.shown); err != nil {
		t.steps().failStep(key, err)
		return
	}
	rule := n.Approve
	wait := cmp.Or(time.Duration(rule.Timeout), approvalTime("pre_execution"))
	a := &events.Approval{
		ID: events.ApprovalIDFrom(t.Task.ID, t.Rules.Entropy), Step: key, Type: "pre_execution",
		Description: q.Description, Rationale: q.Rationale, Details: t.value(q.Show),
		Priority: cmp.Or(rule.Priority, approvalPriority(t.Task.Submitted.Priority)), Risk: rule.Risk, From: rule.From,
		ExpiresAt: t.Now.Add(wait), Quorum: rule.Quorum, Form: events.Inline(rule.Form), Default: t.value(q.Default),
		OnReject: cmp.Or(rule.OnReject, onRejectFail), OnExpiry: cmp.Or(rule.OnExpiry, onExpiryBlock),
		Covers: calls.covers, Calls: t.value(calls.shown),
	}
	if rule.Remind > 0 {
		a.RemindAt = new(events.Time(t.Now.Add(time.Duration(rule.Remind))))
	}
	t.request(a)
	t.Emit(events.StepParked, &events.Parked{Step: key, Approval: a.ID})
}

// answerApproveStep ends an approve step whose approval was decided.
func (t Approvals) answerApproveStep(s *statemachine.Step, a *statemachine.Approval) {
	switch {
	case a.Status == statemachine.ApprovalExpired && a.OnExpiry == onExpiryReject:
		t.refuseStep(s, expired(a))
	case a.Status == statemachine.ApprovalExpired && a.OnExpiry != onExpiryDefault:
		// the step waits until a person resumes the task (AskAgain)
	case a.Status == statemachine.ApprovalRejected && a.Decision.Disposition != "":
		t.revise(s, a)
	case a.Status == statemachine.ApprovalRejected && a.OnReject != onRejectContinue:
		t.refuseStep(s, rejected(a))
	default:
		t.Emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Output: t.value(t.answerOf(a)), Duration: t.Now.Sub(a.RequestedAt)})
	}
}

// answerOf returns the output of an approve step.
func (t Approvals) answerOf(a *statemachine.Approval) json.RawMessage {
	out := map[string]any{"approval_id": a.ID, "status": a.Status, "approver": "", "reason": "", "decided_at": a.DecidedAt, "form": nil}
	form := a.Default
	if a.Decision != nil {
		out["approver"], out["reason"] = a.Decision.Approver, a.Decision.Reason
		form = a.Decision.Form
	}
	if !form.IsZero() {
		out["form"] = t.Fetch(form)
	}
	return MustJSON(out)
}

// AskAgain requests expired approvals again, and unblocks a task that they have blocked. A task that runs its verify steps is
// not blocked by them, so it keeps its state.
func (t Approvals) AskAgain(by string) {
	if t.Task.State == statemachine.Blocked && (t.Task.Block == BlockExpired || t.anyStuck()) {
		t.Emit(events.TaskUnblocked, &events.Moved{})
	}
	for _, s := range t.Task.In(statemachine.StepParked) {
		if t.Stuck(s) {
			t.Emit(events.StepResolved, &events.Resolved{Step: s.Key, As: "retry", By: by})
		}
	}
}

func rejected(a *statemachine.Approval) *fault.Error {
	return fault.New(fault.ApprovalRejected, "%s rejected approval %s: %s", a.Decision.Approver, a.ID, cmp.Or(a.Decision.Reason, "no reason given"))
}

func expired(a *statemachine.Approval) *fault.Error {
	return fault.New(fault.ApprovalExpired, "nobody decided about %q by %s (approval %s)", Clip(a.Description), Clock(a.ExpiresAt), a.ID)
}
