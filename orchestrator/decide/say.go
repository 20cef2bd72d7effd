package decide

import (
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// maxUnheard limits the messages to an agent that its model has not heard.
const maxUnheard = 100

// Say records what a person says to the agent of a step. Its model hears it in its next turn. end ends the chat after the answer; the
// text may then be zero. It returns STATE_NOT_ALLOWED if no agent works on the step.
func (t *Turn) Say(step string, m events.Message, end bool) error {
	s := t.Task.Steps[step]
	switch {
	case s == nil || s.Agent == nil || s.State != statemachine.StepRunning:
		return fault.New(fault.StateNotAllowed, "no agent works on step %s: it is %s", step, t.Task.StepState(step)).WithField("step")
	case end && !s.Agent.Spec.Chat:
		return fault.New(fault.ValidationError, "the agent of step %s does not chat: it ends by itself", step).WithField("end").
			WithHint("orch cancel %s stops it", t.Task.ID)
	case !m.Text.IsZero() && len(s.Agent.Told) >= maxUnheard:
		return fault.New(fault.QuotaExceeded, "the agent has not heard %d messages, the limit", maxUnheard).WithField("text").
			WithHint("wait for its next turn")
	}
	t.Emit(events.AgentTold, &events.Told{Step: step, Message: m, End: end})
	return nil
}
