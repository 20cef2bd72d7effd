// Package onboarding is the family of tools that introduce agents to the node (S3 rules). Their answers depend on the
// tools that the node offers to the agent.
package onboarding

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
	// Agents returns the service for registered agents; nil if there is none.
	Agents func() agents.Service
}

// Node contains the data and functions of the node that the tools use. All fields except Contacts and Called are
// required.
type Node struct {
	Version string
	// Offered returns the tools that a task may call, by category.
	Offered func(ctx context.Context, task events.TaskID) (map[string][]string, error)
	// Called reports whether an identity has successfully called a tool since a time.
	Called func(ctx context.Context, who, tool string, since time.Time) (bool, error)
	// Contacts are the people who can help.
	Contacts []string
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
	return []tools.Tool{getWelcome(cfg), registerAgent(cfg), getChecklist(cfg)}
}

// agents returns the service for registered agents.
func (c Config) agents() (agents.Service, error) {
	if c.Agents != nil {
		if service := c.Agents(); service != nil {
			return service, nil
		}
	}
	return nil, fault.New(fault.ToolUnavailable, "only a running node has registered agents").WithHint("start one: orch serve")
}
