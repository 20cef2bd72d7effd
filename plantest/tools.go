package plantest

import (
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
)

// catalogue has the tools of a node, each as one that any worker may run.
type catalogue struct{ orchestrator.Catalogue }

// Get implements orchestrator.Catalogue.
func (c catalogue) Get(name string) (tools.Tool, bool) {
	t, ok := c.Catalogue.Get(name)
	if !ok {
		return nil, false
	}
	return anywhere{t}, true
}

// anywhere is a tool whose calls are made here, wherever they are made otherwise.
type anywhere struct{ tools.Tool }

// Spec implements tools.Tool.
func (t anywhere) Spec() tools.Spec {
	s := t.Tool.Spec()
	s.AtNode, s.ForAgents = false, false
	return s
}
