// Package system is the family of tools that tell agents about the node itself (seed 003): what it can do, what waits
// for somebody, and how it is. They run in the process of the node alone, and learn from it by the ports below; nothing
// that they say is made up here.
package system

import (
	"context"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Config connects the family with a node. The zero value works: the tools then say that there is none.
type Config struct {
	// Node returns what the node can be asked; nil where there is no node, or none yet.
	Node func() *Node
}

// Node is what the family learns from the node. All fields are required but Agents.
type Node struct {
	Version string
	// Skills lists the tools of the node as a task may call them.
	Skills func(ctx context.Context, task events.TaskID) ([]Tool, error)
	// Agents are those that have registered; nil where agents cannot.
	Agents Agents
	Queue  Queue
	Usage  Usage
	Health Health
}

// Tool is a tool with the family that it belongs to.
type Tool struct {
	tools.Tool

	// Category is the name of the family, or of the server that the tool comes from.
	Category string
	// Author is who offers the tool, Version its version.
	Author, Version string
}

// Agents lists the agents that have registered.
type Agents interface {
	Agents(ctx context.Context) ([]agents.View, error)
}

// Uses say how the calls of a tool, or those of an agent, have ended so far.
type Uses struct {
	Count, Successes uint64
	// Took is the time of all of them together.
	Took     time.Duration
	LastUsed time.Time
	// Errors counts those that failed, by their code.
	Errors map[fault.Code]uint64
}

// errors are the counts by the names of the codes, nil for none.
func (u *Uses) errors() map[string]uint64 {
	var counts map[string]uint64
	for code, n := range u.Errors {
		if counts == nil {
			counts = map[string]uint64{}
		}
		counts[string(code)] = n
	}
	return counts
}

// add adds counts of errors.
func (u *Uses) add(more map[fault.Code]uint64) {
	for code, n := range more {
		if u.Errors == nil {
			u.Errors = map[fault.Code]uint64{}
		}
		u.Errors[code] += n
	}
}

// Usage counts the calls of the node. The zero Uses are those of who was never called.
type Usage interface {
	// Tool and Agent are the uses of one, by name.
	Tool(name string) Uses
	Agent(name string) Uses
	// Tools are those of all tools that were ever called.
	Tools() map[string]Uses
}

func (c Config) node() (*Node, error) {
	if c.Node != nil {
		if n := c.Node(); n != nil {
			return n, nil
		}
	}
	return nil, fault.New(fault.ToolUnavailable, "only a node can answer this").WithHint("start one: orch serve")
}

// Tools returns the family.
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{listSkills(cfg), getAgents(cfg), getTaskQueue(cfg), getSystemStatus(cfg)}
}

// spec is the contract that the tools of the family have in common: they read, in any state, inside the node.
func spec(s tools.Spec) tools.Spec {
	s.Effect, s.Gate, s.Approval = tools.Read, tools.AnyState, tools.NoApproval
	s.NoWorkspace, s.AtNode = true, true
	s.Conditions = append([]string{"Any task state"}, s.Conditions...)
	return s
}

// rate is the share of successes, nil when there was no call.
func (u Uses) rate() *float64 {
	if u.Count == 0 {
		return nil
	}
	return new(float64(u.Successes) / float64(u.Count))
}

// stamp is a time as RFC 3339 in UTC, nil for none (S3-005).
func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Truncate(time.Millisecond))
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// agents returns all registered agents; none where agents cannot register.
func (n *Node) agents(ctx context.Context) ([]agents.View, error) {
	if n.Agents == nil {
		return nil, nil
	}
	return n.Agents.Agents(ctx)
}
