package plantest

import (
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
)

// catalogue contains the tools of a node, changed so that any worker may run them.
type catalogue struct{ orchestrator.Catalogue }

// Get implements orchestrator.Catalogue.
func (c catalogue) Get(name string) (tools.Tool, bool) {
	t, ok := c.Catalogue.Get(name)
	if !ok {
		return nil, false
	}
	return anywhere{t}, true
}

// anywhere is a tool that any worker may run, even if only the node or agents run it otherwise.
type anywhere struct{ tools.Tool }

// Spec implements tools.Tool.
func (t anywhere) Spec() tools.Spec {
	s := t.Tool.Spec()
	s.AtNode, s.ForAgents = false, false
	return s
}
