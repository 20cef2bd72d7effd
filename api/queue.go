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

// TypeLabel is the label with the type of work of a task.
const TypeLabel = "type"

// QueueRequest filters the open tasks; zero fields do not filter (S3-110).
type QueueRequest struct {
	// Agent selects two groups of tasks: those assigned to this agent, and the unassigned tasks that an agent with this name, with
	// type AgentType and with Capabilities may take.
	Agent        string   `json:"agent,omitempty"`
	AgentType    string   `json:"agent_type,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
	Priority     string   `json:"priority,omitempty"`
	// Status is one of the constants above. It overrides IncludeAssigned.
	Status string `json:"status,omitempty"`
	Type   string `json:"type,omitempty"`
	// IncludeAssigned also lists assigned tasks and tasks in progress; without it, only waiting tasks are listed (S3-112).
	IncludeAssigned bool `json:"include_assigned,omitempty"`
	// Limit is 1 to 100, default 20.
	Limit int `json:"limit,omitempty"`
	// Except is a task that is neither listed nor counted, such as the task that the request comes from.
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
	// Status is the queue status for State and Block, one of the constants above.
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

// QueueStats counts all tasks in the queue, regardless of the filters of the request.
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
