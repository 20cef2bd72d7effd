// Package system is the family of tools that show the network to agents (seed 003).
package system

import (
	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/tools"
)

// Config says what the family works with.
type Config struct {
	// Agents is the node that knows the agents; nil makes system.getAgents UNAVAILABLE.
	Agents agents.Service
}

// Tools returns the family.
func Tools(cfg Config) []tools.Tool { return []tools.Tool{getAgents(cfg)} }
