package orchestrator

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// What an approval leads to.
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

// grantLife is how long a grant lets its call through (M-3).
const grantLife = time.Hour

// blockExpired is the kind of the block of a task whose approval nobody decided in time.
const blockExpired = "expired"

// approvalTime is how long an approval of a type waits when nobody says (M-3).
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

// park puts a call aside until somebody has allowed it. A grant that fits it, or a request for the same
// targets that is pending already, counts for it too, as does one that the session has lent.
func (t *turn) park(s *statemachine.Step, ask *work.Ask, lent *statemachine.Approval) {
	id := t.fitting(s, ask)
	if id == "" && lent != nil {
		id = t.adopt(lent, s.Key)
	}
	if id == "" {
		id = events.ApprovalIDFrom(t.task.ID, t.rules.entropy)
		t.request(t.inTerms(s, &events.Approval{
			ID: id, Step: s.Key, Type: ask.Type, Tool: s.Tool, ArgsSHA256: ask.ArgsSHA256, Scopes: ask.Scopes, Offers: t.offers(ask),
			Description: "allow " + s.Tool + " in step " + s.Key, Rationale: ask.Reason + t.otherThan(s),
			Details:  events.Inline(mustJSON(map[string]any{"rule": ask.Rule, "impact": ask.Impact})),
			Priority: approvalPriority(t.task.Submitted.Priority), Risk: ask.Risk,
			ExpiresAt: t.now.Add(approvalTime(ask.Type)), OnReject: onRejectContinue, OnExpiry: onExpiryBlock,
		}))
	}
	t.emit(events.StepParked, &events.Parked{Step: s.Key, Attempt: s.Attempt, Approval: id})
}

// fitting returns the approval that an ask can share, "" when it needs its own.
func (t *reading) fitting(s *statemachine.Step, ask *work.Ask) string {
	for _, a := range t.task.Approvals {
		same := len(ask.Scopes) > 0 && slices.Equal(a.Scopes, ask.Scopes) && a.Status == statemachine.ApprovalPending
		granted := a.Step == "" && a.Usable(t.now) && len(ask.Scopes) == 0 && a.Tool == s.Tool && a.ArgsSHA256 == ask.ArgsSHA256
		if !t.sameTerms(s, a) {
			continue
		}
		if same || granted {
			return a.ID
		}
	}
	return ""
}

// approvalPriority is the priority of a task in the words of approvals.
func approvalPriority(priority string) string {
	if priority == "normal" {
		return "medium"
	}
	return priority
}

// request opens an approval, and lets the task wait for it where table T-1 has the edge.
func (t *turn) request(a *events.Approval) {
	a.Requester = first(a.Requester, "task:"+string(t.task.ID))
	a.ExpiresAt = events.Time(a.ExpiresAt)
	if wait := a.ExpiresAt.Sub(t.now); a.RemindAt == nil {
		a.RemindAt = new(events.Time(t.now.Add(wait / 2)))
	}
	t.emit(events.ApprovalRequested, a)
	t.awaitApproval(a.ID)
}

// awaitApproval brings the task to AWAITING_APPROVAL from wherever that is possible.
func (t *turn) awaitApproval(id string) {
	if statemachine.Check(t.task.State, events.TaskApprovalRequested) != nil || isSession(t.task) {
		return
	}
	reason := "the grant is being used"
	if id != "" {
		reason = "approval " + id + " is pending"
	}
	t.emit(events.TaskApprovalRequested, &events.Moved{Reason: reason})
}

// settleApprovals draws the consequences of what was decided about approvals, and of those whose time is over.
func (t *turn) settleApprovals() {
	if len(t.task.Approvals) == 0 {
		return
	}
	for _, a := range slices.Clone(t.task.Approvals) {
		if a.Status == statemachine.ApprovalPending && !t.task.State.Terminal() {
			t.watchClock(a)
		}
	}
	for _, key := range slices.Clone(t.task.Order) {
		if s := t.task.Steps[key]; s.State == statemachine.StepParked && len(s.Questions) == 0 && !t.stopped() {
			t.unpark(s, t.newest(s.Approval))
		}
	}
	if t.task.State == statemachine.AwaitingApproval && !t.task.Undecided() && !t.usingGrant() && !t.stopped() {
		t.goOnAfterApproval()
	}
}

// watchClock reminds the approvers of a pending approval, and ends it in time.
func (t *turn) watchClock(a *statemachine.Approval) {
	switch {
	case !t.early(a.ExpiresAt):
		t.expireApproval(a)
	case a.RemindAt != nil && !a.Reminded && !t.early(*a.RemindAt):
		t.emit(events.ApprovalReminded, &events.Elapsed{ID: a.ID, At: t.now})
	}
}

// expireApproval ends an approval that nobody decided in time.
func (t *turn) expireApproval(a *statemachine.Approval) {
	if a.OnExpiry == onExpiryApprove {
		t.emit(events.ApprovalGranted, &events.Decision{ID: a.ID, Approver: actorNode, Reason: "nobody decided in time, and the plan says approve", At: t.now})
		return
	}
	t.emit(events.ApprovalExpired, &events.Elapsed{ID: a.ID, At: t.now})
	if (a.Priority != "critical" && a.OnExpiry != onExpiryEscalate) || a.Follows != "" {
		return
	}
	next := a.Approval
	next.ID, next.Follows, next.Priority, next.RemindAt = events.ApprovalIDFrom(t.task.ID, t.rules.entropy), a.ID, "critical", nil
	next.ExpiresAt = t.now.Add(a.ExpiresAt.Sub(a.RequestedAt))
	t.request(&next)
}

// newest returns the approval that stands for another one now: itself, or the one that replaced it.
func (t *reading) newest(id string) *statemachine.Approval {
	a := t.task.Approval(id)
	for _, next := range t.task.Approvals {
		if a != nil && next.Follows == a.ID {
			a = next
		}
	}
	return a
}

// unpark lets a step go on whose approval was decided.
func (t *turn) unpark(s *statemachine.Step, a *statemachine.Approval) {
	switch {
	case a == nil:
		t.refuseStep(s, fault.New(fault.ApprovalExpired, "the approval %s is lost", s.Approval))
	case a.Status == statemachine.ApprovalPending:
		return
	case s.Tool == "":
		t.answerApproveStep(s, a)
	case a.Status == statemachine.ApprovalGranted:
		t.activate() // when it is blocked meanwhile
		t.readyAgain(s, grantOf(t.task, s, t.now))
	case a.Status == statemachine.ApprovalRejected && a.Decision.Disposition == "":
		t.refuseStep(s, rejected(a))
	case a.Status == statemachine.ApprovalRejected:
		t.revise(s, a)
	case a.OnExpiry == onExpiryReject:
		t.refuseStep(s, expired(a))
	case a.OnExpiry == onExpiryContinue:
		t.emit(events.StepSkipped, &events.Skipped{Step: s.Key, Reason: expired(a).Message})
	}
}

// readyAgain hands the call of a step out anew, with its grant; without one the worker asks again.
func (t *turn) readyAgain(s *statemachine.Step, grant string) {
	t.emitReady(&events.Ready{
		Step: s.Key, Attempt: s.Attempt + 1, Tool: s.Tool, Args: s.Args, Effect: s.Effect,
		Queue: s.Queue, Timeout: s.Timeout, Purpose: s.Purpose, Approval: grant, By: s.By,
	})
}

// emitReady makes a call ready; the task waits while one runs that is only allowed then.
func (t *turn) emitReady(d *events.Ready) {
	if t.task.State == statemachine.Blocked && d.Purpose == "" {
		t.activate() // its gate would not let it through
	}
	d.For = t.agentsFor(d.Step, d.Tool, d.Args)
	t.emit(events.StepReady, d)
	if d.Approval != "" && t.runsWaiting(d.Tool) {
		t.awaitApproval("")
	}
}

func (t *turn) refuseStep(s *statemachine.Step, err *fault.Error) {
	t.emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: err, Class: fault.ClassDenied})
}

// askPeople begins an approve step of the plan.
func (t *turn) askPeople(n *plan.Node, key string, sc plan.Scope) {
	q, err := n.Question(sc)
	var calls covered
	if err == nil {
		calls, err = t.covered(n)
	}
	if err = t.outcomeOf(err, q.Show, q.Default, []byte(q.Description), []byte(q.Rationale), calls.shown); err != nil {
		t.failStep(key, err)
		return
	}
	rule := n.Approve
	wait := cmp.Or(time.Duration(rule.Timeout), approvalTime("pre_execution"))
	a := &events.Approval{
		ID: events.ApprovalIDFrom(t.task.ID, t.rules.entropy), Step: key, Type: "pre_execution",
		Description: q.Description, Rationale: q.Rationale, Details: t.keep(q.Show),
		Priority: cmp.Or(rule.Priority, approvalPriority(t.task.Submitted.Priority)), Risk: rule.Risk, From: rule.From,
		ExpiresAt: t.now.Add(wait), Quorum: rule.Quorum, Form: events.Inline(rule.Form), Default: t.keep(q.Default),
		OnReject: cmp.Or(rule.OnReject, onRejectFail), OnExpiry: cmp.Or(rule.OnExpiry, onExpiryBlock),
		Covers: calls.covers, Calls: t.keep(calls.shown),
	}
	if rule.Remind > 0 {
		a.RemindAt = new(events.Time(t.now.Add(time.Duration(rule.Remind))))
	}
	t.request(a)
	t.emit(events.StepParked, &events.Parked{Step: key, Approval: a.ID})
}

// answerApproveStep ends an approve step whose approval was decided.
func (t *turn) answerApproveStep(s *statemachine.Step, a *statemachine.Approval) {
	switch {
	case a.Status == statemachine.ApprovalExpired && a.OnExpiry == onExpiryReject:
		t.refuseStep(s, expired(a))
	case a.Status == statemachine.ApprovalExpired && a.OnExpiry != onExpiryDefault:
		// it is stuck until somebody lets it ask again
	case a.Status == statemachine.ApprovalRejected && a.Decision.Disposition != "":
		t.revise(s, a)
	case a.Status == statemachine.ApprovalRejected && a.OnReject != onRejectContinue:
		t.refuseStep(s, rejected(a))
	default:
		t.emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Output: t.keep(t.answerOf(a)), Duration: t.now.Sub(a.RequestedAt)})
	}
}

// answerOf is the output of an approve step.
func (t *reading) answerOf(a *statemachine.Approval) json.RawMessage {
	out := map[string]any{"approval_id": a.ID, "status": a.Status, "approver": "", "reason": "", "decided_at": a.DecidedAt, "form": nil}
	form := a.Default
	if a.Decision != nil {
		out["approver"], out["reason"] = a.Decision.Approver, a.Decision.Reason
		form = a.Decision.Form
	}
	if !form.IsZero() {
		out["form"] = t.fetch(form)
	}
	return mustJSON(out)
}

// revise puts the task back for another version: it is paused, and asks again when it is resumed.
func (t *turn) revise(s *statemachine.Step, a *statemachine.Approval) {
	t.emit(events.StepResolved, &events.Resolved{Step: s.Key, As: "retry", By: a.Decision.Approver, Reason: a.Decision.Reason})
}

func rejected(a *statemachine.Approval) *fault.Error {
	return fault.New(fault.ApprovalRejected, "%s rejected approval %s: %s", a.Decision.Approver, a.ID, first(a.Decision.Reason, "no reason given"))
}

func expired(a *statemachine.Approval) *fault.Error {
	return fault.New(fault.ApprovalExpired, "nobody decided about approval %s until %s", a.ID, clock(a.ExpiresAt))
}

// usingGrant reports whether a call that was allowed is under way which needs the task to wait meanwhile.
func (t *reading) usingGrant() bool {
	for _, key := range t.task.Order {
		s := t.task.Steps[key]
		if (s.State == statemachine.StepReady || s.State == statemachine.StepRunning) && s.Approval != "" && t.runsWaiting(s.Tool) {
			return true
		}
	}
	return false
}

// runsWaiting reports whether a tool runs only while its task awaits an approval.
func (t *reading) runsWaiting(tool string) bool {
	found, ok := t.rules.catalogue.Get(tool)
	return ok && found.Spec().Gate == tools.AwaitingApproval
}

// goOnAfterApproval takes the task out of AWAITING_APPROVAL: what was decided last, while it waited, says how.
func (t *turn) goOnAfterApproval() {
	var last *statemachine.Approval
	for _, a := range t.task.Approvals {
		switch {
		case a.DecidedAt.Before(t.task.Since), a.Status == statemachine.ApprovalExpired && t.newest(a.ID) != a:
		case t.blocks(a):
			t.emit(events.TaskExpired, &events.Moved{Block: blockExpired, Reason: expired(a).Message})
			return
		case last == nil || last.Status != statemachine.ApprovalRejected:
			last = a
		}
	}
	switch {
	case last == nil || last.Status != statemachine.ApprovalRejected:
		t.emit(events.TaskApproved, &events.Moved{})
	case last.Decision.Disposition != "":
		t.emit(events.TaskRevised, &events.Moved{Reason: last.Decision.Reason})
		t.emit(events.TaskPaused, &events.Paused{Reason: "a revision was asked for: " + last.Decision.Reason})
	case last.OnReject == onRejectFail && last.Step == "":
		t.rejectTask(rejected(last))
	default:
		t.emit(events.TaskDeclined, &events.Moved{Reason: rejected(last).Message})
	}
}

// blocks reports whether an expired approval keeps the task from going on.
func (t *reading) blocks(a *statemachine.Approval) bool {
	goesOn := a.OnExpiry == onExpiryReject || a.OnExpiry == onExpiryDefault || a.OnExpiry == onExpiryContinue
	if a.Status != statemachine.ApprovalExpired || goesOn {
		return false
	}
	return a.Step == "" || t.anyStuck()
}

func (t *reading) anyStuck() bool {
	return slices.ContainsFunc(t.task.Order, func(key string) bool { return t.stuck(t.task.Steps[key]) })
}

// stuck reports whether a step waits for an approval that has expired.
func (t *reading) stuck(s *statemachine.Step) bool {
	if s.State != statemachine.StepParked || len(s.Questions) > 0 {
		return false
	}
	a := t.newest(s.Approval)
	return a != nil && a.Status == statemachine.ApprovalExpired
}

// rejectTask ends the task whose own request was rejected. One with `always` steps goes on to run them.
func (t *turn) rejectTask(err *fault.Error) {
	if len(t.plan.program.Always()) > 0 {
		t.emit(events.TaskDeclined, &events.Moved{Reason: err.Message})
		t.end(err)
		return
	}
	t.stopCalls(err.Message)
	t.emit(events.TaskRejected, &events.Moved{Reason: err.Message, Error: err})
}

// dropApprovals ends the approvals of a task that does not wait for them any more, and brings it to where
// its `always` steps may run.
func (t *turn) dropApprovals() {
	for _, a := range slices.Clone(t.task.Approvals) {
		if a.Status == statemachine.ApprovalPending && !t.isAlways(a.Step) {
			t.emit(events.ApprovalExpired, &events.Elapsed{ID: a.ID, At: t.now})
		}
	}
	if t.task.State == statemachine.AwaitingApproval && !t.task.Undecided() && !t.usingGrant() && len(t.plan.program.Always()) > 0 {
		t.emit(events.TaskDeclined, &events.Moved{Reason: "the task ends"})
	}
}

// askAgain lets what still waits after nobody decided in time ask anew, and a task go on that is blocked for that.
// One that is being verified has never been blocked.
func (t *turn) askAgain(by string) {
	if t.task.State == statemachine.Blocked && (t.task.Block == blockExpired || t.anyStuck()) {
		t.emit(events.TaskUnblocked, &events.Moved{})
	}
	for _, key := range slices.Clone(t.task.Order) {
		if s := t.task.Steps[key]; t.stuck(s) {
			t.emit(events.StepResolved, &events.Resolved{Step: key, As: "retry", By: by})
		}
	}
}

// barred reports whether a ready call has to stay because its task awaits an approval (S0-163). One with a note goes on
// like any that runs.
func (r *rules) barred(t *statemachine.Task, s *statemachine.Step) bool {
	if t.State != statemachine.AwaitingApproval || s.Noted() {
		return false
	}
	tool, ok := r.catalogue.Get(s.Tool)
	return ok && !slices.Contains(tool.Spec().Gate.States(), t.State)
}

// scopes returns what was granted to the task as a whole.
func scopes(t *statemachine.Task) []string {
	var open []string
	for _, a := range t.Approvals {
		if a.Status == statemachine.ApprovalGranted {
			open = append(open, a.Scopes...)
		}
	}
	return open
}

// grantOf returns the grant that a step may be called with, "" when it has none that is good.
func grantOf(t *statemachine.Task, s *statemachine.Step, now time.Time) string {
	if s.Approval == "" {
		return ""
	}
	for _, a := range t.Approvals {
		if (a.ID == s.Approval || a.Follows == s.Approval) && a.UsableFor(s.Key, now) {
			return a.ID
		}
	}
	return ""
}

// describeGate adds to a call what its gate has to know of the task.
func (o *Orchestrator) describeGate(e *entry, s *statemachine.Step, spec tools.Spec, call *work.Call) {
	if id := grantOf(e.task, s, o.now()); id != "" {
		a := e.task.Approval(id)
		call.Grant = &work.Grant{ID: id, ArgsSHA256: a.Digest(s.Key), Whole: len(a.Covers) > 0}
	}
	if spec.Approval != tools.NoApproval {
		call.Open = openOf(e)
	}
	if spec.Approval == tools.ByIntent {
		call.Since = sinceOf(e)
	}
	if spec.NeedsApprovals {
		call.Approvals = statusesOf(e.task)
	}
	call.Recent, call.RetryAfter = o.recent(e.task, spec.RateClass())
}

// openOf is what the task may reach without a further approval, nil for nothing.
func openOf(e *entry) *work.Open {
	open := &work.Open{Scopes: scopes(e.task)}
	if allow := allowOf(e); allow != nil {
		open.Paths, open.Endpoints, open.Connections, open.Packages = allow.Paths, allow.Endpoints, allow.Connections, allow.Packages
		open.Programs = allow.Programs
		open.Within = e.task.Submitted.Within
	} else if len(open.Scopes) == 0 {
		return nil
	}
	return open
}

// recent counts the calls of a class that the task began in the last minute, and says when the oldest of
// them is a minute old. Classes without a limit are not counted.
func (o *Orchestrator) recent(t *statemachine.Task, class tools.Rate) (n int, after time.Duration) {
	if !o.cfg.Limited(class) {
		return 0, 0
	}
	since := o.now().Add(-time.Minute)
	oldest := o.now()
	for _, s := range t.Steps {
		if s.Tool == "" || !s.CalledAt.After(since) || o.rules.classOf(s.Tool) != class {
			continue
		}
		if n++; s.CalledAt.Before(oldest) {
			oldest = s.CalledAt
		}
	}
	return n, oldest.Sub(since)
}

func (r *rules) classOf(tool string) tools.Rate {
	if found, ok := r.catalogue.Get(tool); ok {
		return found.Spec().RateClass()
	}
	return ""
}

// isUser reports whether an actor is a person with the operator's credential; workers, agents and tasks
// are not.
func isUser(actor string) bool { return strings.HasPrefix(actor, "user:") }
