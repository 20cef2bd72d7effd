package orchestrator

import (
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// approvalOrder tells which approvals of a task came after others.
type approvalOrder struct {
	task *statemachine.Task
	// newest are the newest approvals by step, followed those that replace an expired one, by the id of that.
	newest, followed map[string]string
}

// approvalOrderOf reads which approvals of a task came after others.
func approvalOrderOf(t *statemachine.Task) approvalOrder {
	o := approvalOrder{task: t, newest: map[string]string{}, followed: map[string]string{}}
	for _, a := range t.Approvals {
		if a.Step != "" {
			o.newest[a.Step] = a.ID
		}
		if a.Follows != "" {
			o.followed[a.Follows] = a.ID
		}
	}
	return o
}

// of returns the newest approval of the step of a decided approval, or "" if it is the approval itself. For an approval without a step, it
// returns the one that replaces it.
func (o approvalOrder) of(a *statemachine.Approval) string {
	next := o.followed[a.ID]
	if a.Step != "" {
		next = o.newest[a.Step]
	}
	if next == a.ID || a.Status == statemachine.ApprovalPending {
		return ""
	}
	return next
}

// blocks reports whether the task is blocked because an approval has expired, so that a resume asks again.
func (o approvalOrder) blocks(a *statemachine.Approval) bool {
	if a.Status != statemachine.ApprovalExpired || o.followed[a.ID] != "" || o.task.State != statemachine.Blocked {
		return false
	}
	if a.Step == "" {
		return o.task.Block == decide.BlockExpired
	}
	s := o.task.Steps[a.Step]
	return s != nil && s.State == statemachine.StepParked && len(s.Questions) == 0 && (s.Approval == a.ID || s.Approval == a.Follows)
}
