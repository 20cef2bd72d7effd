package orchestrator

import (
	"slices"
	"strconv"

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
	// NoticeApprovalEscalated announces an approval that replaces an expired one.
	NoticeApprovalEscalated = "approval_escalated"
)

// announce sends the notices for a durable commit (S0-186). mu must be held.
func (c *core) announce(t *decide.Turn) {
	for _, event := range t.Events {
		switch d := event.Data.(type) {
		case *events.Moved:
			c.announceMove(t, event.Kind, d)
		case *events.Approval:
			kind := NoticeApprovalRequested
			if d.Follows != "" {
				kind = NoticeApprovalEscalated
			}
			c.announceApproval(t, kind, d.ID)
		case *events.Elapsed:
			if event.Kind == events.ApprovalReminded {
				c.announceApproval(t, NoticeApprovalReminded, d.ID)
			}
		}
	}
}

// announceMove sends the notice for a task that is blocked or has failed. The notice has low priority if a dependency blocks
// the task, if its agent has answered in a chat, or if the task consists of a single call.
func (c *core) announceMove(t *decide.Turn, kind events.Kind, d *events.Moved) {
	n := Notice{Priority: "high", Text: d.Reason}
	switch {
	case kind == events.TaskFailed && isInternalName(t.Task.Submitted.Name):
		return // whoever has started it gets the error: for a part, the task of the for_each, which sends the notice
	case slices.Contains([]events.Kind{events.TaskFailed, events.TaskRejected}, kind):
		n.Kind = NoticeFailed
	case slices.Contains([]events.Kind{events.TaskBlocked, events.TaskExpired}, kind) && t.Task.State == statemachine.Blocked:
		n.Kind, n.Question = NoticeBlocked, openQuestion(t.Task)
	default:
		return
	}
	switch {
	case d.Block == decide.BlockDependency, n.Kind == NoticeBlocked && onlyChats(t.Task), t.IsSingleCall(): // the client of a single call receives its error anyway
		n.Priority = "low"
	case t.Task.Submitted.Priority == "critical":
		n.Priority = "critical"
	}
	c.sendNotice(t, n)
}

// onlyChats reports whether a blocked task waits for nothing but a message to its agent.
func onlyChats(t *statemachine.Task) bool {
	chats := false
	for _, s := range t.Live() {
		chats = chats || s.Agent != nil && s.Agent.Waits()
		if s.State == statemachine.StepInDoubt {
			return false
		}
	}
	return chats && openQuestion(t) == ""
}

// openQuestion returns the id of the first open question of a task; empty if there is none.
func openQuestion(t *statemachine.Task) string {
	for _, q := range t.Questions {
		if q.Status == statemachine.QuestionOpen {
			return q.ID
		}
	}
	return ""
}

// announceApproval sends the notice for an approval that is still pending.
func (c *core) announceApproval(t *decide.Turn, kind, id string) {
	a := t.Task.Approval(id)
	if a == nil || a.Status != statemachine.ApprovalPending || t.Task.State.Terminal() {
		return
	}
	text := a.Description
	if a.Rationale != "" {
		text += ": " + a.Rationale
	}
	c.sendNotice(t, Notice{Kind: kind, Approval: a.ID, Priority: a.Priority, Text: text + "\nIt expires at " + decide.Clock(a.ExpiresAt) + "."})
}

// sendNotice completes a notice and passes it to Hooks.Notify.
func (c *core) sendNotice(t *decide.Turn, n Notice) {
	n.Task, n.Name, n.At = t.Task.ID, decide.NameOf(t.Task), t.Now
	n.Key = string(n.Task) + "/" + strconv.FormatUint(t.Task.Rev, 10) + "/" + n.Kind
	if n.Approval != "" {
		n.Key = n.Approval + "/" + n.Kind
	}
	c.cfg.Hooks.Notify(n)
}
