package system

import (
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/tools"
)

type getAgentsIn struct {
	Status         string   `json:"status,omitempty" jsonschema:"Filter by agent status" enum:"active,idle,busy,offline,error"`
	Type           string   `json:"type,omitempty" jsonschema:"Filter by agent type"`
	Capabilities   []string `json:"capabilities,omitempty" jsonschema:"Filter by required capabilities"`
	IncludeMetrics bool     `json:"includeMetrics,omitempty" jsonschema:"Include metrics of their tasks" default:"false"`
}

type getAgentsOut struct {
	Agents  []agent  `json:"agents" jsonschema:"The agents"`
	Summary *summary `json:"summary,omitempty" jsonschema:"Counts of all agents"`
}

type agent struct {
	ID           string        `json:"id,omitempty" jsonschema:"Identifier"`
	Name         string        `json:"name,omitempty" jsonschema:"Name"`
	Type         string        `json:"type,omitempty" jsonschema:"Role of the agent"`
	Status       string        `json:"status,omitempty" jsonschema:"active, idle, busy, offline or error"`
	Capabilities []string      `json:"capabilities,omitempty" jsonschema:"What the agent can do"`
	CurrentTasks *int          `json:"currentTasks,omitempty" jsonschema:"Number of its current tasks"`
	MaxTasks     int           `json:"maxTasks,omitempty" jsonschema:"Maximum number of concurrent tasks"`
	LastSeen     string        `json:"lastSeen,omitempty" jsonschema:"Time of its last heartbeat or request" format:"date-time"`
	Metrics      *agentMetrics `json:"metrics,omitempty" jsonschema:"Metrics of its tasks"`
}

type agentMetrics struct {
	TasksCompleted *int     `json:"tasksCompleted,omitempty" jsonschema:"Number of successful tasks"`
	SuccessRate    *float64 `json:"successRate,omitempty" jsonschema:"Share of successful tasks, 0 to 1"`
	// AvgResponseTime is in milliseconds, Uptime in seconds.
	AvgResponseTime *float64 `json:"avgResponseTime,omitempty" jsonschema:"Mean time of a task in milliseconds"`
	Uptime          *int64   `json:"uptime,omitempty" jsonschema:"Seconds since it was last offline"`
}

// summary counts all agents, including those that a filter excludes. The field error is an addition to the
// specification: without it the counts would not add up to the total.
type summary struct {
	Total   *int `json:"total,omitempty" jsonschema:"Number of agents"`
	Active  *int `json:"active,omitempty" jsonschema:"Agents with tasks that accept more"`
	Idle    *int `json:"idle,omitempty" jsonschema:"Agents without tasks"`
	Busy    *int `json:"busy,omitempty" jsonschema:"Agents at their maximum of tasks"`
	Offline *int `json:"offline,omitempty" jsonschema:"Agents without recent heartbeats"`
	Error   *int `json:"error,omitempty" jsonschema:"Agents that reported an error"`
}

// getAgents is system.getAgents (S3-105 to S3-107).
func getAgents(cfg Config) tools.Tool {
	return tools.Define(readSpec(tools.Spec{
		Name:    "system.getAgents",
		Title:   "List the agents",
		Purpose: "List active agents in the system",
		Errors:  []string{"TOOL_UNAVAILABLE"},
	}), func(ctx context.Context, env *tools.Env, in getAgentsIn) (getAgentsOut, error) {
		node, err := cfg.node()
		if err != nil {
			return getAgentsOut{}, err
		}
		all, err := node.agents(ctx)
		if err != nil {
			return getAgentsOut{}, err
		}
		out := getAgentsOut{Agents: []agent{}, Summary: countByStatus(all)}
		for _, v := range all {
			if in.matches(v) {
				out.Agents = append(out.Agents, agentOut(v, in.IncludeMetrics))
			}
		}
		return out, nil
	})
}

func (in getAgentsIn) matches(v agents.View) bool {
	if in.Status != "" && in.Status != string(v.Status) || in.Type != "" && in.Type != v.Type {
		return false
	}
	names := v.CapabilityNames()
	return !slices.ContainsFunc(in.Capabilities, func(c string) bool { return !slices.Contains(names, c) })
}

func agentOut(v agents.View, includeMetrics bool) agent {
	a := agent{
		ID: v.ID, Name: v.Name, Type: v.Type, Status: string(v.Status), Capabilities: v.CapabilityNames(),
		CurrentTasks: &v.Current, MaxTasks: v.MaxTasks,
	}
	if !v.LastSeen.IsZero() {
		a.LastSeen = v.LastSeen.UTC().Format(time.RFC3339)
	}
	if includeMetrics {
		a.Metrics = metricsOf(v)
	}
	return a
}

func metricsOf(v agents.View) *agentMetrics {
	m := &agentMetrics{TasksCompleted: &v.Record.Completed, SuccessRate: new(v.Record.SuccessRate()), Uptime: new(int64(v.Uptime / time.Second))}
	if n := v.Record.Completed + v.Record.Failed; n > 0 {
		m.AvgResponseTime = new(float64(v.Record.Busy.Milliseconds()) / float64(n))
	}
	return m
}

func countByStatus(all []agents.View) *summary {
	by := map[agents.Status]int{}
	for _, v := range all {
		by[v.Status]++
	}
	of := func(s agents.Status) *int { return new(by[s]) }
	return &summary{
		Total: new(len(all)), Active: of(agents.Active), Idle: of(agents.Idle), Busy: of(agents.Busy),
		Offline: of(agents.Offline), Error: of(agents.Error),
	}
}
