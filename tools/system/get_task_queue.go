package system

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// QueueRequest filters the open tasks; zero fields do not filter.
type QueueRequest struct {
	// Agent, AgentType and Capabilities describe one agent by name, role and capabilities. They select the tasks that
	// are assigned to it, and unassigned tasks that it may claim.
	Agent, AgentType       string
	Capabilities           []string
	Priority, Status, Type string
	IncludeAssigned        bool
	// Limit is 1 to 100.
	Limit int
	// Except is the task of the call itself; it is neither listed nor counted.
	Except events.TaskID
}

// QueuedTask is an open task.
type QueuedTask struct {
	ID       events.TaskID
	Type     string
	Requires []string
	// AssignedTo is the name of the agent to which the task is assigned.
	AssignedTo           string
	Priority, Status     string
	State, Block, Reason string
	Name, Summary        string
	Queue                string
	Parent               events.TaskID
	Paused               bool
	CreatedAt            time.Time
	Deadline             *time.Time
	DependsOn            []events.TaskID
}

// QueueStats are statistics of the whole queue.
type QueueStats struct {
	Total, Pending, Assigned, InProgress, Blocked int
	// Wait is the average waiting time of pending tasks.
	Wait   time.Duration
	Oldest *time.Time
}

// Queue lists the open tasks by priority, then age.
type Queue interface {
	Queue(ctx context.Context, r QueueRequest) ([]QueuedTask, QueueStats, error)
}

type getTaskQueueIn struct {
	AgentID         string `json:"agentId,omitempty" jsonschema:"Filter tasks for specific agent"`
	Priority        string `json:"priority,omitempty" jsonschema:"Filter by priority" enum:"critical,high,normal,low"`
	Status          string `json:"status,omitempty" jsonschema:"Filter by task status" enum:"pending,assigned,in_progress,blocked"`
	Type            string `json:"type,omitempty" jsonschema:"Filter by task type"`
	IncludeAssigned bool   `json:"includeAssigned,omitempty" jsonschema:"Include already assigned tasks" default:"false"`
	Limit           int    `json:"limit,omitempty" jsonschema:"Maximum number of tasks to return" minimum:"1" maximum:"100" default:"20"`
}

type getTaskQueueOut struct {
	Tasks      []queued   `json:"tasks" jsonschema:"The tasks by priority, then age"`
	QueueStats queueStats `json:"queueStats" jsonschema:"Statistics of the whole queue, regardless of the filters"`
}

type queued struct {
	ID                   string       `json:"id,omitempty" jsonschema:"Id of the task"`
	Type                 string       `json:"type,omitempty" jsonschema:"Type of the work, if the plan specifies it"`
	Priority             string       `json:"priority,omitempty" jsonschema:"critical, high, normal or low"`
	Status               string       `json:"status,omitempty" jsonschema:"pending, assigned, in_progress or blocked"`
	Title                string       `json:"title,omitempty" jsonschema:"Name of the task"`
	Description          string       `json:"description,omitempty" jsonschema:"Summary in the plan"`
	RequiredCapabilities []string     `json:"requiredCapabilities,omitempty" jsonschema:"Capabilities that an agent needs"`
	AssignedTo           string       `json:"assignedTo,omitempty" jsonschema:"Id of the agent that it is assigned to; the name of the agent if it was removed"`
	CreatedAt            *time.Time   `json:"createdAt,omitempty" jsonschema:"When it was submitted"`
	Deadline             *time.Time   `json:"deadline,omitempty" jsonschema:"Deadline of the task"`
	Dependencies         []string     `json:"dependencies,omitempty" jsonschema:"Tasks that it still waits for"`
	Metadata             tools.Object `json:"metadata,omitempty" jsonschema:"state, block, reason, agent (its name), queue, parent and paused as orch knows them"`
}

type queueStats struct {
	Total       *int       `json:"total,omitempty" jsonschema:"Open tasks"`
	Pending     *int       `json:"pending,omitempty" jsonschema:"Tasks that wait for an agent or a worker"`
	Assigned    *int       `json:"assigned,omitempty" jsonschema:"Tasks that are assigned to an agent"`
	InProgress  *int       `json:"inProgress,omitempty" jsonschema:"Tasks in progress"`
	Blocked     *int       `json:"blocked,omitempty" jsonschema:"Blocked tasks"`
	AvgWaitTime *float64   `json:"avgWaitTime,omitempty" jsonschema:"Mean waiting time of the pending tasks in milliseconds"`
	OldestTask  *time.Time `json:"oldestTask,omitempty" jsonschema:"When the oldest task was submitted"`
}

// getTaskQueue is system.getTaskQueue (S3-110 to S3-115).
func getTaskQueue(cfg Config) tools.Tool {
	return tools.Define(readSpec(tools.Spec{
		Name:       "system.getTaskQueue",
		Title:      "Show the task queue",
		Purpose:    "Get pending tasks from the task queue",
		Conditions: []string{"Shows names and summaries of all open tasks, but not their inputs"},
		Errors:     []string{"VALIDATION_ERROR", "NOT_FOUND", "TOOL_UNAVAILABLE"},
	}), func(ctx context.Context, env *tools.Env, in getTaskQueueIn) (getTaskQueueOut, error) {
		node, err := cfg.node()
		if err != nil {
			return getTaskQueueOut{}, err
		}
		r := QueueRequest{
			Priority: in.Priority, Status: in.Status, Type: in.Type, IncludeAssigned: in.IncludeAssigned,
			Limit: in.Limit, Except: env.Task,
		}
		if in.AgentID != "" {
			a, err := node.agent(ctx, in.AgentID)
			if err != nil {
				return getTaskQueueOut{}, err
			}
			r.Agent, r.AgentType, r.Capabilities = a.Name, a.Type, a.CapabilityNames()
		}
		list, all, err := node.Queue.Queue(ctx, r)
		if err != nil {
			return getTaskQueueOut{}, err
		}
		ids, err := node.agentIDs(ctx, list)
		if err != nil {
			return getTaskQueueOut{}, err
		}
		out := getTaskQueueOut{Tasks: []queued{}, QueueStats: newStats(all)}
		for _, q := range list {
			out.Tasks = append(out.Tasks, newQueued(q, ids))
		}
		return out, nil
	})
}

// agent returns the agent with an id.
func (n *Node) agent(ctx context.Context, id string) (agents.View, error) {
	registered, err := n.agents(ctx)
	if err != nil {
		return agents.View{}, err
	}
	for _, a := range registered {
		if a.ID == id {
			return a, nil
		}
	}
	return agents.View{}, fault.New(fault.NotFound, "there is no such agent").WithField("agentId").WithHint("see system.getAgents")
}

// agentIDs returns the ids of the registered agents by name, or nil if no task in the list is assigned. It does not
// contain removed agents.
func (n *Node) agentIDs(ctx context.Context, list []QueuedTask) (map[string]string, error) {
	if !slices.ContainsFunc(list, func(q QueuedTask) bool { return q.AssignedTo != "" }) {
		return nil, nil //nolint:nilnil // a nil map can be read
	}
	registered, err := n.agents(ctx)
	ids := make(map[string]string, len(registered))
	for _, a := range registered {
		ids[a.Name] = a.ID
	}
	return ids, err
}

func newQueued(q QueuedTask, ids map[string]string) queued {
	out := queued{
		ID: string(q.ID), Type: q.Type, Priority: q.Priority, Status: q.Status, Title: q.Name, Description: q.Summary,
		RequiredCapabilities: q.Requires, AssignedTo: cmp.Or(ids[q.AssignedTo], q.AssignedTo), CreatedAt: timestamp(q.CreatedAt), Metadata: metadata(q),
	}
	if q.Deadline != nil {
		out.Deadline = timestamp(*q.Deadline)
	}
	for _, id := range q.DependsOn {
		out.Dependencies = append(out.Dependencies, string(id))
	}
	return out
}

func metadata(q QueuedTask) tools.Object {
	text, err := json.Marshal(struct {
		State  string        `json:"state"`
		Block  string        `json:"block,omitempty"`
		Reason string        `json:"reason,omitempty"`
		Agent  string        `json:"agent,omitempty"`
		Queue  string        `json:"queue,omitempty"`
		Parent events.TaskID `json:"parent,omitempty"`
		Paused bool          `json:"paused,omitempty"`
	}{q.State, q.Block, q.Reason, q.AssignedTo, q.Queue, q.Parent, q.Paused})
	if err != nil {
		return nil // strings can always be encoded
	}
	return text
}

func newStats(s QueueStats) queueStats {
	out := queueStats{
		Total: &s.Total, Pending: &s.Pending, Assigned: &s.Assigned, InProgress: &s.InProgress, Blocked: &s.Blocked,
		AvgWaitTime: new(millis(s.Wait)),
	}
	if s.Oldest != nil {
		out.OldestTask = timestamp(*s.Oldest)
	}
	return out
}
