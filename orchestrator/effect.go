package orchestrator

import (
	"slices"

	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// effect is that of the step, else that of its tool, else write.
func (t *reading) effect(n *plan.Node) tools.Effect {
	if n.Effect != "" {
		return tools.Effect(n.Effect)
	}
	return t.rules.effectOf(n.Tool)
}

func (r *rules) effectOf(tool string) tools.Effect {
	if found, ok := r.catalogue.Get(tool); ok {
		return found.Spec().Effect
	}
	return tools.Write
}

// declared reports whether the plan itself says what effect the call of a step has. It always says so of the call
// that looks at one in doubt: looking changes nothing.
func (t *reading) declared(s *statemachine.Step) bool {
	if s.Purpose == purposeVerify {
		return true
	}
	n := t.nodeByKey(s.Key)
	return n != nil && n.Effect != ""
}

// resolved returns the effect that a worker has found for this very call, "" where that of the step counts: it is
// the same, or the plan declares it. A tool that cannot tell its calls apart may have become another one since the step
// was made ready, but only one that does more is believed.
func (t *reading) resolved(s *statemachine.Step, effect string) string {
	graver := gravity(effect) - gravity(s.Effect)
	if graver == 0 || gravity(effect) < 0 || t.declared(s) {
		return ""
	}
	if tool, ok := t.rules.catalogue.Get(s.Tool); ok {
		if _, tells := tool.(tools.Intender); tells {
			return effect
		}
	}
	if graver < 0 {
		return ""
	}
	return effect
}

// gravity orders effects by how much they do; -1 for what is none.
func gravity(effect string) int {
	return slices.Index([]tools.Effect{tools.Read, tools.Idempotent, tools.Write, tools.Destructive}, tools.Effect(effect))
}

// mayHaveHappened reports whether the effect of the call must not be repeated blindly.
func mayHaveHappened(s *statemachine.Step) bool {
	return (s.State == statemachine.StepRunning || s.Noted()) && hasEffects(s)
}

// hasEffects reports whether the call of a step is one that must happen at most once.
func hasEffects(s *statemachine.Step) bool {
	return tools.Effect(s.Effect).AtMostOnce()
}
