package statemachine

import "github.com/orch-dev/orch/events"

// State is the canonical state of a task (table T-1).
type State string

// The ten states.
const (
	NeedsAction      State = "NEEDS_ACTION"
	Assigned         State = "ASSIGNED"
	Planning         State = "PLANNING"
	AwaitingApproval State = "AWAITING_APPROVAL"
	InProgress       State = "IN_PROGRESS"
	Blocked          State = "BLOCKED"
	Completed        State = "COMPLETED"
	Done             State = "DONE"
	Failed           State = "FAILED"
	Cancelled        State = "CANCELLED"
)

// States returns all states in the order of a task's life cycle.
func States() []State {
	return []State{NeedsAction, Assigned, Planning, AwaitingApproval, InProgress, Blocked, Completed, Done, Failed, Cancelled}
}

// Terminal reports whether no transition leaves s.
func (s State) Terminal() bool { return s == Done || s == Failed || s == Cancelled }

// Transition is one row of table T-1.
type Transition struct {
	// Event is the name of the transition.
	Event string
	// Kind is the kind of the log event that records it.
	Kind events.Kind
	From []State
	To   State
	// Trigger describes the cause of the transition.
	Trigger string
}

// Table returns T-1: the 18 events of the specification and `finish`, for tasks that declare no
// verification.
func Table() []Transition {
	open := []State{NeedsAction, Assigned, Planning, AwaitingApproval, InProgress, Blocked, Completed}
	return []Transition{
		{"assign", events.TaskAssigned, []State{NeedsAction}, Assigned, "claim by agent (lease)"},
		{"release", events.TaskReleased, []State{Assigned}, NeedsAction, "agent releases the task, or its lease expires before the start"},
		{"plan", events.TaskPlanned, []State{NeedsAction, Assigned}, Planning, "task requires planning"},
		{"start", events.TaskStarted, []State{NeedsAction, Assigned, Planning}, InProgress, "worker starts"},
		{"request_approval", events.TaskApprovalRequested, []State{NeedsAction, Assigned, Planning, InProgress}, AwaitingApproval, "approval request or tool gate"},
		{"approve", events.TaskApproved, []State{AwaitingApproval}, InProgress, "granted"},
		{"decline", events.TaskDeclined, []State{AwaitingApproval}, InProgress, "rejected, the task continues"},
		{"reject", events.TaskRejected, []State{AwaitingApproval}, Failed, "rejected, the task fails"},
		{"revise", events.TaskRevised, []State{AwaitingApproval}, NeedsAction, "approver asks for revision"},
		{"expire", events.TaskExpired, []State{AwaitingApproval}, Blocked, "nobody decided in time"},
		{"block", events.TaskBlocked, []State{NeedsAction, Assigned, Planning, InProgress}, Blocked, "dependency unmet, resource missing, permanent failure, input needed"},
		{"unblock", events.TaskUnblocked, []State{Blocked}, InProgress, "blocker resolved"},
		{"requeue", events.TaskRequeued, []State{Blocked, InProgress}, NeedsAction, "dependency met before start, lease lost, planned again"},
		{"complete", events.TaskCompleted, []State{InProgress}, Completed, "work finished, verification starts"},
		{"rework", events.TaskReworked, []State{Completed}, InProgress, "verification failed, recoverable"},
		{"finalize", events.TaskFinalized, []State{Completed}, Done, "verification passed"},
		{"finish", events.TaskFinished, []State{InProgress}, Done, "work finished, no verification declared"},
		{"fail", events.TaskFailed, open, Failed, "unrecoverable error, operator, retries exhausted"},
		{"cancel", events.TaskCancelled, open, Cancelled, "cancelled by a person, a client or the parent"},
	}
}
