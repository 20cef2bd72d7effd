package orchestrator

import (
	"slices"

	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// effect is that of the step, else that of its tool, else write.
func (t *turn) effect(n *plan.Node) tools.Effect {
	if n.Effect != "" {
		return tools.Effect(n.Effect)
	}
	return t.o.effectOf(n.Tool)
}

func (o *Orchestrator) effectOf(tool string) tools.Effect {
	if found, ok := o.cfg.Catalogue.Get(tool); ok {
		return found.Spec().Effect
	}
	return tools.Write
}

// declared reports whether the plan itself says what effect the call of a step has. It always says so of the call
// that looks at one in doubt: looking changes nothing.
func (t *turn) declared(s *statemachine.Step) bool {
	if s.Purpose == purposeVerify {
		return true
	}
	n := t.nodeByKey(s.Key)
	return n != nil && n.Effect != ""
}

// resolved returns the effect that a worker has found for this very call, "" where that of the step counts: it is
// the same, the plan declares it, or the tool cannot tell its calls apart.
func (t *turn) resolved(s *statemachine.Step, effect string) string {
	known := []tools.Effect{tools.Read, tools.Idempotent, tools.Write, tools.Destructive}
	if effect == s.Effect || !slices.Contains(known, tools.Effect(effect)) || t.declared(s) {
		return ""
	}
	tool, ok := t.o.cfg.Catalogue.Get(s.Tool)
	if _, tells := tool.(tools.Intender); !ok || !tells {
		return ""
	}
	return effect
}

// mayHaveHappened reports whether the effect of the call must not be repeated blindly.
func mayHaveHappened(s *statemachine.Step) bool {
	return s.State == statemachine.StepRunning && hasEffects(s)
}

// hasEffects reports whether the call of a step is one that must happen at most once.
func hasEffects(s *statemachine.Step) bool {
	effect := tools.Effect(s.Effect)
	return effect == tools.Write || effect == tools.Destructive
}
