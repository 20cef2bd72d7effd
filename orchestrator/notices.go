package orchestrator

import (
	"slices"
	"strconv"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// The kinds of notices.
const (
	NoticeFailed            = "task_failed"
	NoticeBlocked           = "task_blocked"
	NoticeApprovalRequested = "approval_requested"
	NoticeApprovalReminded  = "approval_reminded"
	// NoticeApprovalEscalated is an approval that follows one which nobody decided in time.
	NoticeApprovalEscalated = "approval_escalated"
)

// Notice is something that people should know at once. It is told when the commit that says it is durable,
// once, and never again by a restart or a replay: who was away then misses it.
type Notice struct {
	Kind string
	Task events.TaskID
	Name string
	// Key is the same for the same notice, and for no other.
	Key string
	// Approval is set with the kinds of approvals.
	Approval string
	// Priority is low, medium, high or critical.
	Priority string
	Text     string
	At       time.Time
}

// announce tells what people should know of a durable commit (S0-186). The lock is held.
func (o *Orchestrator) announce(t *decide.Turn) {
	for _, event := range t.Events {
		switch d := event.Data.(type) {
		case *events.Moved:
			o.announceMove(t, event.Kind, d)
		case *events.Approval:
			kind := NoticeApprovalRequested
			if d.Follows != "" {
				kind = NoticeApprovalEscalated
			}
			o.announceApproval(t, kind, d.ID)
		case *events.Elapsed:
			if event.Kind == events.ApprovalReminded {
				o.announceApproval(t, NoticeApprovalReminded, d.ID)
			}
		}
	}
}

// announceMove tells that a task is blocked or has failed. A task that waits for others goes on by itself.
func (o *Orchestrator) announceMove(t *decide.Turn, kind events.Kind, d *events.Moved) {
	n := Notice{Priority: "high", Text: d.Reason}
	switch {
	case slices.Contains([]events.Kind{events.TaskFailed, events.TaskRejected}, kind):
		n.Kind = NoticeFailed
	case slices.Contains([]events.Kind{events.TaskBlocked, events.TaskExpired}, kind) && t.Task.State == statemachine.Blocked:
		n.Kind = NoticeBlocked
	default:
		return
	}
	switch {
	case d.Block == decide.BlockDependency, t.IsSingleCall(): // whoever made the call hears of it
		n.Priority = "low"
	case t.Task.Submitted.Priority == "critical":
		n.Priority = "critical"
	}
	o.notice(t, n)
}

// announceApproval tells of an approval that still waits.
func (o *Orchestrator) announceApproval(t *decide.Turn, kind, id string) {
	a := t.Task.Approval(id)
	if a == nil || a.Status != statemachine.ApprovalPending || t.Task.State.Terminal() {
		return
	}
	text := a.Description
	if a.Rationale != "" {
		text += ": " + a.Rationale
	}
	o.notice(t, Notice{Kind: kind, Approval: a.ID, Priority: a.Priority, Text: text + "\nIt expires at " + decide.Clock(a.ExpiresAt) + "."})
}

func (o *Orchestrator) notice(t *decide.Turn, n Notice) {
	n.Task, n.Name, n.At = t.Task.ID, t.Task.Submitted.Name, t.Now
	n.Key = string(n.Task) + "/" + strconv.FormatUint(t.Task.Rev, 10) + "/" + n.Kind
	if n.Approval != "" {
		n.Key = n.Approval + "/" + n.Kind
	}
	o.cfg.Notify(n)
}
