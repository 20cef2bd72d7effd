package orchestrator

import (
	"fmt"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// endedCause returns why a task is over, and what lets its work go on.
func (t *explanation) endedCause() api.Cause {
	c := api.Cause{Kind: "over", Sentence: fmt.Sprintf("The task is over: %s since %s.", t.Task.State, decide.Clock(t.Task.Since))}
	err := t.Task.Error
	if err == nil {
		return c
	}
	c.Sentence = fmt.Sprintf("The task is over: %s since %s, because %s.", t.Task.State, decide.Clock(t.Task.Since), strings.TrimSuffix(err.Message, "."))
	if err.Hint != "" {
		c.Sentence += " Hint: " + strings.TrimSuffix(err.Hint, ".") + "."
	}
	step := endingStep(t.Task)
	switch {
	case step == nil || step.Agent == nil || step.Error.Code != fault.QuotaExceeded:
		c.Next = "orch redrive " + string(t.Task.ID)
	case decide.OfLedger(step.Error):
		c.Next = "orch costs"
	default:
		id, _, _ := strings.Cut(step.Key, "[")
		c.Sentence += fmt.Sprintf(" What the agent has used counts again in a redrive, so that may end in the same way at once. Raise %s in the plan and submit it, or begin the agent anew.", step.Error.Field)
		c.Next = fmt.Sprintf("orch retry %s --from %s", t.Task.ID, id)
	}
	return c
}

// endingStep returns the failed step whose error has ended the task; nil if it is not known.
func endingStep(t *statemachine.Task) *statemachine.Step {
	for _, key := range t.Order {
		s := t.Steps[key]
		if s.State == statemachine.StepFailed && s.Error != nil && strings.HasPrefix(t.Error.Message, "step "+key+": ") {
			return s
		}
	}
	return nil
}
