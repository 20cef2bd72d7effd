package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/orch-dev/orch/events"
)

// AgentService describes the registered agents of the node.
type AgentService interface {
	// Agents returns the registered agents, by name.
	Agents(ctx context.Context, r AgentsRequest) (AgentsReply, error)
}

// AgentsRequest asks for the registered agents.
type AgentsRequest struct{}

// AgentsReply contains the registered agents, by name.
type AgentsReply struct {
	Agents []AgentView `json:"agents"`
	// Omitted is the number of further agents.
	Omitted int `json:"omitted,omitempty"`
}

// AgentView is a registered agent.
type AgentView struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Type         string   `json:"type"`
	Version      string   `json:"version,omitempty"`
	Description  string   `json:"description,omitempty"`
	Capabilities []string `json:"capabilities"`
	// Status is idle, active, busy, error or offline. Problem is what the agent has reported with the status error.
	Status  string `json:"status"`
	Problem string `json:"problem,omitempty"`
	// LastSeen is zero for an agent that has made no request since the node started.
	LastSeen time.Time     `json:"last_seen,omitzero"`
	Uptime   time.Duration `json:"uptime,omitempty"`
	// Calls are the calls that the agent works on, at most MaxTasks at once.
	Calls    []AgentCall `json:"calls"`
	MaxTasks int         `json:"max_tasks"`
	// Messages is the number of pending messages in its inbox.
	Messages int `json:"messages"`
	// Completed, Failed and Busy count its finished calls and their duration. Streak counts the failures since the last success.
	Completed int           `json:"completed"`
	Failed    int           `json:"failed"`
	Streak    int           `json:"streak,omitempty"`
	Busy      time.Duration `json:"busy,omitempty"`
	// For is the only identity for which it works; empty for everybody.
	For          string    `json:"for,omitempty"`
	RegisteredBy string    `json:"registered_by"`
	RegisteredAt time.Time `json:"registered_at"`
	// ExpiresAt is when its credential expires unless it renews it.
	ExpiresAt time.Time `json:"expires_at"`
}

// AgentCall is a call that an agent works on.
type AgentCall struct {
	Task  events.TaskID `json:"task"`
	Step  string        `json:"step"`
	Since time.Time     `json:"since,omitzero"`
	Until time.Time     `json:"until,omitzero"`
	// Ending is set for a call that was taken from the agent, and that the agent has not stopped yet.
	Ending bool `json:"ending,omitempty"`
}

// agentRoutes returns the routes of registered agents.
func agentRoutes() []route {
	list := plain(http.MethodGet, "/agents", "agents", "List the registered agents.", readsAll, toolList, nothing())
	return []route{served(list, func(c Config) AgentService { return c.Agents }, AgentService.Agents)}
}
