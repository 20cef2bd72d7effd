// Package system is the family of tools that describe the node to agents (S3 rules): its skills, its task queue, and
// its health. They run only in the process of the node and get their data through the interfaces below.
package system

import (
	"context"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Config gives the tools access to a node. With the zero value they return TOOL_UNAVAILABLE.
type Config struct {
	// Node returns the node; nil if there is none, or if it is not ready yet.
	Node func() *Node
}

// Node contains the data and functions of the node that the tools use. All fields except Agents are required.
type Node struct {
	Version string
	// Skills lists the tools of the node that a task may call.
	Skills func(ctx context.Context, task events.TaskID) ([]Tool, error)
	// Agents lists the registered agents; nil if agents cannot register.
	Agents Agents
	Queue  Queue
	Usage  Usage
	Health Health
}

// Tool is a tool with its family.
type Tool struct {
	tools.Tool

	// Category is the name of the family, or of the external MCP server that provides the tool.
	Category string
	// Author is the provider of the tool, Version its version.
	Author, Version string
}

// Agents lists the registered agents.
type Agents interface {
	Agents(ctx context.Context) ([]agents.View, error)
}

// Uses are statistics of the finished calls of a tool or an agent.
type Uses struct {
	Count, Successes uint64
	// Took is the total duration of all calls.
	Took     time.Duration
	LastUsed time.Time
	// Errors counts the failed calls by error code.
	Errors map[fault.Code]uint64
}

// errorCounts returns Errors with the codes as strings, nil for none.
func (u *Uses) errorCounts() map[string]uint64 {
	var counts map[string]uint64
	for code, n := range u.Errors {
		if counts == nil {
			counts = map[string]uint64{}
		}
		counts[string(code)] = n
	}
	return counts
}

// addErrors adds counts of errors.
func (u *Uses) addErrors(more map[fault.Code]uint64) {
	for code, n := range more {
		if u.Errors == nil {
			u.Errors = map[fault.Code]uint64{}
		}
		u.Errors[code] += n
	}
}

// Usage counts the calls of the node. It returns zero Uses for a tool or an agent without calls.
type Usage interface {
	// Tool and Agent return the uses of one tool or agent, by name.
	Tool(name string) Uses
	Agent(name string) Uses
	// Tools returns the uses of all tools that were ever called.
	Tools() map[string]Uses
}

func (c Config) node() (*Node, error) {
	if c.Node != nil {
		if n := c.Node(); n != nil {
			return n, nil
		}
	}
	return nil, fault.New(fault.ToolUnavailable, "this requires a running node").WithHint("start one: orch serve")
}

// Tools returns the tools of the family.
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{listSkills(cfg), getAgents(cfg), getTaskQueue(cfg), getSystemStatus(cfg)}
}

// readSpec sets the fields that all tools of the family share: they read, in any state of the task, and run at the
// node.
func readSpec(s tools.Spec) tools.Spec {
	s.Effect, s.Gate, s.Approval = tools.Read, tools.AnyState, tools.NoApproval
	s.NoWorkspace, s.AtNode = true, true
	s.Conditions = append([]string{"Any task state"}, s.Conditions...)
	return s
}

// successRate returns the share of successful calls, nil without calls.
func (u Uses) successRate() *float64 {
	if u.Count == 0 {
		return nil
	}
	return new(float64(u.Successes) / float64(u.Count))
}

// timestamp returns a time in UTC with millisecond precision, nil for the zero time (S3-005).
func timestamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Truncate(time.Millisecond))
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// agents returns all registered agents, nil if agents cannot register.
func (n *Node) agents(ctx context.Context) ([]agents.View, error) {
	if n.Agents == nil {
		return nil, nil
	}
	return n.Agents.Agents(ctx)
}
