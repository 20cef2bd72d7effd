package api

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// Limits of holds.
const (
	// MaxHeld limits the tasks of one request about holds, and the holds of one page.
	MaxHeld = 1000
	// MaxHoldText limits a reason and a note, in bytes.
	MaxHoldText = 1000
)

// HoldRequest places a hold on tasks: no retention removes them, their families or their workspaces. A family is a topmost parent
// with all of its descendants.
type HoldRequest struct {
	IDs []events.TaskID `json:"ids"`
	// Reason says why. A task can be held for several reasons.
	Reason string `json:"reason"`
	Actor  string `json:"actor,omitempty"`
}

// ReleaseHoldRequest ends holds.
type ReleaseHoldRequest struct {
	IDs []events.TaskID `json:"ids"`
	// Reason selects the holds with this reason; empty selects all holds of the tasks.
	Reason string `json:"reason,omitempty"`
	// Note says why they end.
	Note  string `json:"note,omitempty"`
	Actor string `json:"actor,omitempty"`
}

// HoldsRequest selects holds.
type HoldsRequest struct {
	// Task selects the holds of one task.
	Task events.TaskID `json:"task,omitempty"`
	// Released selects the last 1,000 holds that have ended instead.
	Released bool `json:"released,omitempty"`
	// Limit is 1 to MaxHeld, default MaxHeld. Cursor is the Next of the previous reply.
	Limit  int    `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// HoldsReply contains holds, by task and reason.
type HoldsReply struct {
	Holds []Hold `json:"holds"`
	Next  string `json:"next,omitempty"`
}

// Hold is a hold on a task.
type Hold struct {
	Task events.TaskID `json:"task"`
	// Family is the topmost parent of the task.
	Family events.TaskID `json:"family"`
	Reason string        `json:"reason"`
	By     string        `json:"by"`
	At     time.Time     `json:"at"`
	// Released is set for a hold that has ended.
	Released *HoldRelease `json:"released,omitempty"`
}

// HoldRelease is the end of a hold.
type HoldRelease struct {
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	Note string    `json:"note,omitempty"`
}

// RetentionRequest asks what retention would remove now.
type RetentionRequest struct {
	// Tasks is how many tasks the reply names, 0 to 1,000.
	Tasks int `json:"tasks,omitempty"`
}

// RetentionReply says what retention would remove now.
type RetentionReply struct {
	At time.Time `json:"at"`
	// Rules are the rules of the node in their order; the last one stands for the tasks that no rule matches.
	Rules []RetentionRule `json:"rules"`
	// Tasks are the first of the tasks that would be removed, with the number of their rule.
	Tasks []RetentionTask `json:"tasks"`
	// Held counts the tasks that would be due without a hold. WithFamily counts those that are due, but stay because another task of
	// their family is not.
	Held       int `json:"held"`
	WithFamily int `json:"with_family"`
	// Outside is where tasks are archived before they are removed; empty if they are not.
	Outside string `json:"outside,omitempty"`
}

// RetentionRule says what a rule would remove now.
type RetentionRule struct {
	// Rule is the number of the rule, from 1; 0 for the tasks that no rule matches.
	Rule  int    `json:"rule"`
	Where string `json:"where"`
	// The times of the rule; 0 is for ever.
	Done             time.Duration `json:"done"`
	Failed           time.Duration `json:"failed"`
	Workspaces       time.Duration `json:"workspaces"`
	FailedWorkspaces time.Duration `json:"failed_workspaces"`
	// DueTasks counts the tasks that would be removed. DueBytes is the size of their histories, before compression: an estimate if
	// Estimated is set, from some of them.
	DueTasks  int   `json:"due_tasks"`
	DueBytes  int64 `json:"due_bytes"`
	Estimated bool  `json:"estimated,omitempty"`
	// DueWorkspaces counts the workspaces that would be removed, DueWorkspaceBytes is their size.
	DueWorkspaces     int   `json:"due_workspaces"`
	DueWorkspaceBytes int64 `json:"due_workspace_bytes"`
}

// RetentionTask is a task that would be removed.
type RetentionTask struct {
	ID    events.TaskID      `json:"id"`
	Name  string             `json:"name,omitempty"`
	State statemachine.State `json:"state"`
	// At is when its time began to count.
	At   time.Time `json:"at"`
	Rule int       `json:"rule"`
}

// ActorFields returns the field that names who acts.
func (r *HoldRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *ReleaseHoldRequest) ActorFields() []*string { return []*string{&r.Actor} }
