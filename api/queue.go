package api

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// The statuses of the queue (table M-1).
const (
	QueuePending    = "pending"
	QueueAssigned   = "assigned"
	QueueInProgress = "in_progress"
	QueueBlocked    = "blocked"
)

// QueueRequest filters the open tasks; zero fields do not filter (S3-110).
type QueueRequest struct {
	// Agent selects tasks that are assigned to this agent, and unassigned tasks that an agent of this name, of type AgentType
	// and with Capabilities may take.
	Agent        string   `json:"agent,omitempty"`
	AgentType    string   `json:"agent_type,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
	Priority     string   `json:"priority,omitempty"`
	// Status is one of the four of M-1. It overrides IncludeAssigned.
	Status string `json:"status,omitempty"`
	Type   string `json:"type,omitempty"`
	// IncludeAssigned also lists tasks that somebody works on; without it, only waiting ones are listed (S3-112).
	IncludeAssigned bool `json:"include_assigned,omitempty"`
	// Limit is 1 to 100, default 20.
	Limit int `json:"limit,omitempty"`
	// Except is a task that is neither listed nor counted: the task of the caller itself.
	Except events.TaskID `json:"except,omitempty"`
}

// QueueReply is the head of the queue: by priority, then by age (S3-113).
type QueueReply struct {
	Tasks []QueuedTask `json:"tasks"`
	Stats QueueStats   `json:"stats"`
}

// QueuedTask is an open task in the queue.
type QueuedTask struct {
	ID events.TaskID `json:"id"`
	// Type, Requires and AssignedTo are set for work of agents.
	Type       string   `json:"type,omitempty"`
	Requires   []string `json:"requires,omitempty"`
	AssignedTo string   `json:"assigned_to,omitempty"`
	Priority   string   `json:"priority"`
	// Status is the value of column "Sartor queue status" of M-1 for State and Block.
	Status  string             `json:"status"`
	State   statemachine.State `json:"state"`
	Block   string             `json:"block,omitempty"`
	Name    string             `json:"name"`
	Summary string             `json:"summary,omitempty"`
	// Reason is what the task waits for.
	Reason    string        `json:"reason,omitempty"`
	Queue     string        `json:"queue,omitempty"`
	Parent    events.TaskID `json:"parent,omitempty"`
	Paused    bool          `json:"paused,omitempty"`
	CreatedAt time.Time     `json:"created_at"`
	Deadline  *time.Time    `json:"deadline,omitempty"`
	// DependsOn are the unmet dependencies.
	DependsOn []events.TaskID `json:"depends_on,omitempty"`
}

// QueueStats counts the whole queue, whatever the request filters.
type QueueStats struct {
	Total      int `json:"total"`
	Pending    int `json:"pending"`
	Assigned   int `json:"assigned"`
	InProgress int `json:"in_progress"`
	Blocked    int `json:"blocked"`
	// Wait is the average time that the pending tasks have been waiting.
	Wait time.Duration `json:"wait"`
	// Oldest is when the oldest task was created, nil for an empty queue.
	Oldest *time.Time `json:"oldest,omitempty"`
}
