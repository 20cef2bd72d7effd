package decide

import (
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// resolveApprovals expires approvals that are due, and applies the consequences of decided and expired approvals.
func (t Approvals) resolveApprovals() {
	if len(t.Task.Approvals) == 0 {
		return
	}
	for _, a := range slices.Clone(t.Task.Approvals) {
		if a.Status == statemachine.ApprovalPending && !t.Task.State.Terminal() {
			t.expireIfDue(a)
		}
	}
	for _, s := range t.Task.In(statemachine.StepParked) {
		if s.State == statemachine.StepParked && len(s.Questions) == 0 && !t.stopped() {
			t.unpark(s, t.Newest(s.Approval))
		}
	}
	if t.Task.State == statemachine.AwaitingApproval && !t.Task.HasPendingApproval() && !t.usingGrant() && !t.stopped() {
		t.leaveAwaiting()
	}
}

// expireIfDue expires a pending approval, or records its reminder, when that is due.
func (t Approvals) expireIfDue(a *statemachine.Approval) {
	switch {
	case !t.notYet(a.ExpiresAt):
		t.expireApproval(a)
	case a.RemindAt != nil && !a.Reminded && !t.notYet(*a.RemindAt):
		t.Emit(events.ApprovalReminded, &events.Elapsed{ID: a.ID, At: t.Now})
	}
}

// expireApproval applies the rule for an approval that nobody decided in time: it is granted, or expires and possibly escalates
// to a new critical approval.
func (t Approvals) expireApproval(a *statemachine.Approval) {
	if a.OnExpiry == onExpiryApprove {
		t.Emit(events.ApprovalGranted, &events.Decision{ID: a.ID, Approver: ActorNode, Reason: "nobody decided in time, and the plan says approve", At: t.Now})
		return
	}
	t.Emit(events.ApprovalExpired, &events.Elapsed{ID: a.ID, At: t.Now})
	if (a.Priority != "critical" && a.OnExpiry != onExpiryEscalate) || a.Follows != "" {
		return
	}
	next := a.Approval
	next.ID, next.Follows, next.Priority, next.RemindAt = events.ApprovalIDFrom(t.Task.ID, t.Rules.Entropy), a.ID, "critical", nil
	next.ExpiresAt = t.Now.Add(a.ExpiresAt.Sub(a.RequestedAt))
	t.request(&next)
}

// Newest returns the approval with an id, or the newest approval that has replaced it. It returns nil for an unknown id.
func (t *Reading) Newest(id string) *statemachine.Approval {
	a := t.Task.Approval(id)
	for _, next := range t.Task.Approvals {
		if a != nil && next.Follows == a.ID {
			a = next
		}
	}
	return a
}

// unpark continues a step whose approval was decided.
func (t Approvals) unpark(s *statemachine.Step, a *statemachine.Approval) {
	switch {
	case a == nil:
		t.refuseStep(s, fault.New(fault.ApprovalExpired, "the approval %s is lost", s.Approval))
	case a.Status == statemachine.ApprovalPending:
		return
	case s.Tool == "":
		t.answerApproveStep(s, a)
	case a.Status == statemachine.ApprovalGranted:
		t.activate() // the task may have been blocked meanwhile
		t.readyAgain(s, GrantOf(t.Task, s, t.Now))
	case a.Status == statemachine.ApprovalRejected && a.Decision.Disposition == "":
		t.refuseStep(s, rejected(a))
	case a.Status == statemachine.ApprovalRejected:
		t.revise(s, a)
	case a.OnExpiry == onExpiryReject:
		t.refuseStep(s, expired(a))
	case a.OnExpiry == onExpiryContinue:
		t.Emit(events.StepSkipped, &events.Skipped{Step: s.Key, Reason: expired(a).Message})
	}
}

// readyAgain makes the call of a step ready again, with a grant. Without a grant, the worker will request approval again.
func (t Approvals) readyAgain(s *statemachine.Step, grant string) {
	t.emitReady(&events.Ready{
		Step: s.Key, Attempt: s.Attempt + 1, Tool: s.Tool, Args: s.Args, Effect: s.Effect,
		Queue: s.Queue, Timeout: s.Timeout, Purpose: s.Purpose, Approval: grant, By: s.By,
	})
}

// emitReady makes a call ready. If the tool runs only in AWAITING_APPROVAL and the call has a grant, the task moves to that
// state.
func (t Approvals) emitReady(d *events.Ready) {
	if t.Task.State == statemachine.Blocked && OfPlan(d.Purpose) {
		t.activate() // the gate of the tool does not allow BLOCKED
	}
	d.For = t.agentsFor(d.Step, d.Tool, d.Args)
	t.Emit(events.StepReady, d)
	if d.Approval != "" && t.runsOnlyAwaiting(d.Tool) {
		t.awaitApproval("")
	}
}

func (t Approvals) refuseStep(s *statemachine.Step, err *fault.Error) {
	t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: err, Class: fault.ClassDenied})
}

// revise makes a step pending again after a decision "revise". The task is paused (leaveAwaiting), and the step requests
// its approval again when the task is resumed.
func (t Approvals) revise(s *statemachine.Step, a *statemachine.Approval) {
	t.Emit(events.StepResolved, &events.Resolved{Step: s.Key, As: "retry", By: a.Decision.Approver, Reason: a.Decision.Reason})
}

// usingGrant reports whether an approved call is running that needs the task to stay in AWAITING_APPROVAL.
func (t Approvals) usingGrant() bool {
	for _, s := range t.Task.Live() {
		if (s.State == statemachine.StepReady || s.State == statemachine.StepRunning) && s.Approval != "" && t.runsOnlyAwaiting(s.Tool) {
			return true
		}
	}
	return false
}

// leaveAwaiting moves the task out of AWAITING_APPROVAL, according to the decisions since it entered that state.
func (t Approvals) leaveAwaiting() {
	var last *statemachine.Approval
	for _, a := range t.Task.Approvals {
		switch {
		case a.DecidedAt.Before(t.Task.Since), a.Status == statemachine.ApprovalExpired && t.Newest(a.ID) != a:
		case t.blocks(a):
			t.Emit(events.TaskExpired, &events.Moved{Block: BlockExpired, Reason: expired(a).Message})
			return
		case last == nil || last.Status != statemachine.ApprovalRejected:
			last = a
		}
	}
	switch {
	case last == nil || last.Status != statemachine.ApprovalRejected:
		t.Emit(events.TaskApproved, &events.Moved{})
	case last.Decision.Disposition != "":
		t.Emit(events.TaskRevised, &events.Moved{Reason: last.Decision.Reason})
		t.Emit(events.TaskPaused, &events.Paused{Reason: "a revision was requested: " + last.Decision.Reason})
	case last.OnReject == onRejectFail && last.Step == "":
		t.rejectTask(rejected(last))
	default:
		t.Emit(events.TaskDeclined, &events.Moved{Reason: rejected(last).Message})
	}
}

// blocks reports whether an approval has expired and the task cannot continue without it.
func (t Approvals) blocks(a *statemachine.Approval) bool {
	canContinue := a.OnExpiry == onExpiryReject || a.OnExpiry == onExpiryDefault || a.OnExpiry == onExpiryContinue
	if a.Status != statemachine.ApprovalExpired || canContinue {
		return false
	}
	return a.Step == "" || t.anyStuck()
}

func (t *Reading) anyStuck() bool {
	return slices.ContainsFunc(t.Task.In(statemachine.StepParked), t.Stuck)
}

// Stuck reports whether a step waits for an approval that has expired.
func (t *Reading) Stuck(s *statemachine.Step) bool {
	if s.State != statemachine.StepParked || len(s.Questions) > 0 {
		return false
	}
	a := t.Newest(s.Approval)
	return a != nil && a.Status == statemachine.ApprovalExpired
}

// rejectTask ends the task after the rejection of an approval that the task requested for itself. If there are `always` steps,
// they run first.
func (t Approvals) rejectTask(err *fault.Error) {
	if len(t.Plan.Program.Always()) > 0 {
		t.Emit(events.TaskDeclined, &events.Moved{Reason: err.Message})
		t.End(err)
		return
	}
	t.stopCalls(err.Message)
	t.Emit(events.TaskRejected, &events.Moved{Reason: err.Message, Error: err})
}

// dropApprovals expires the approvals that an ending task no longer needs, and moves it to a state in which its `always` steps
// may run.
func (t Approvals) dropApprovals() {
	for _, a := range slices.Clone(t.Task.Approvals) {
		if a.Status == statemachine.ApprovalPending && !t.isAlways(a.Step) {
			t.Emit(events.ApprovalExpired, &events.Elapsed{ID: a.ID, At: t.Now})
		}
	}
	if t.Task.State == statemachine.AwaitingApproval && !t.Task.HasPendingApproval() && !t.usingGrant() && len(t.Plan.Program.Always()) > 0 {
		t.Emit(events.TaskDeclined, &events.Moved{Reason: "the task ends"})
	}
}
