// Package system is the family of tools that show the network to agents (seed 003).
package system

import (
	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Config says what the family works with.
type Config struct {
	// Agents returns the node that knows the agents; nil where there is none.
	Agents func() agents.Service
}

// Tools returns the family.
func Tools(cfg Config) []tools.Tool { return []tools.Tool{getAgents(cfg)} }

func (c Config) agents() (agents.Service, error) {
	if c.Agents != nil {
		if service := c.Agents(); service != nil {
			return service, nil
		}
	}
	return nil, fault.New(fault.ToolUnavailable, "only a node knows the agents").WithHint("start one: orch serve")
}
