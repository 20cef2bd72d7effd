// Package onboarding is the family of tools that make agents at home (seed 003). What it tells an agent follows from what
// the node offers to that agent, so it learns both from the node.
package onboarding

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
	// Agents returns what knows the registered agents; nil where there is none.
	Agents func() agents.Service
}

// Node is what the family learns from the node. All fields but Contacts and Called are required.
type Node struct {
	Version string
	// Offered returns the tools that a task may call, by category.
	Offered func(ctx context.Context, task events.TaskID) (map[string][]string, error)
	// Called reports whether somebody has called a tool, and that has ended well, since a time.
	Called func(ctx context.Context, who, tool string, since time.Time) (bool, error)
	// Contacts are the people to ask.
	Contacts []string
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
	return []tools.Tool{getWelcome(cfg), registerAgent(cfg), getChecklist(cfg)}
}

// agents returns the node that knows the agents.
func (c Config) agents() (agents.Service, error) {
	if c.Agents != nil {
		if service := c.Agents(); service != nil {
			return service, nil
		}
	}
	return nil, fault.New(fault.ToolUnavailable, "only a node knows the agents").WithHint("start one: orch serve")
}
