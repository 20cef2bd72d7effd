// Package onboarding is the family of tools by which agents join the network (seed 003).
package onboarding

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
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{registerAgent(cfg), getChecklist(cfg)}
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
