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
	// Agent asks for tasks that are assigned to it, and for those of nobody that an agent of this name, of the role
	// AgentType and with Capabilities may take.
	Agent        string   `json:"agent,omitempty"`
	AgentType    string   `json:"agent_type,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
	Priority     string   `json:"priority,omitempty"`
	// Status is one of the four of M-1. It wins over IncludeAssigned.
	Status string `json:"status,omitempty"`
	Type   string `json:"type,omitempty"`
	// IncludeAssigned lists tasks that somebody works on as well; without it only those that wait (S3-112).
	IncludeAssigned bool `json:"include_assigned,omitempty"`
	// Limit is 1 to 100, default 20.
	Limit int `json:"limit,omitempty"`
	// Except is a task that is neither listed nor counted: the one in which somebody looks at the queue.
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
	// Type, Requires and AssignedTo are those of work that agents take.
	Type       string   `json:"type,omitempty"`
	Requires   []string `json:"requires,omitempty"`
	AssignedTo string   `json:"assigned_to,omitempty"`
	Priority   string   `json:"priority"`
	// Status is column "Sartor queue status" of M-1 for State and Block.
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
	// DependsOn are the dependencies that are not done yet.
	DependsOn []events.TaskID `json:"depends_on,omitempty"`
}

// QueueStats are those of the whole queue, whatever the request filters.
type QueueStats struct {
	Total      int `json:"total"`
	Pending    int `json:"pending"`
	Assigned   int `json:"assigned"`
	InProgress int `json:"in_progress"`
	Blocked    int `json:"blocked"`
	// Wait is how long the pending tasks have been waiting, on average.
	Wait time.Duration `json:"wait"`
	// Oldest is when the oldest task was made, nil for an empty queue.
	Oldest *time.Time `json:"oldest,omitempty"`
}
