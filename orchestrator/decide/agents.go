package decide

import (
	"cmp"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// Assign moves a task to ASSIGNED when an agent takes its first call (table T-1).
func (t Attempts) Assign(agent string) {
	if t.Task.State == statemachine.NeedsAction {
		t.Emit(events.TaskAssigned, &events.Moved{Reason: "given to " + agent})
	}
}

// Confirm moves an assigned task to IN_PROGRESS when its agent has confirmed or ended the call.
func (t Attempts) Confirm() {
	if t.Task.State == statemachine.Assigned {
		t.activate()
	}
}

// release undoes Assign if the agent returned its call, or was lost, before it started.
func (t Attempts) release() {
	if t.stopped() || t.Task.State != statemachine.Assigned {
		return
	}
	for _, s := range t.Task.Live() {
		if s.Executing() || s.State == statemachine.StepInDoubt {
			return
		}
	}
	t.Emit(events.TaskReleased, &events.Moved{Reason: "no agent has its call"})
}

// MayHandOn returns an error if an agent must not hand its call to the agents in r.HandTo. The agent then keeps the call.
func (t Attempts) MayHandOn(r *work.Outcome) error {
	if r.HandTo == nil || isEmpty(r.HandTo) || !t.Holds(r.Ref, r.Worker) {
		return nil
	}
	s := t.Task.Steps[r.Step]
	if s.For == nil {
		return fault.New(fault.ValidationError, "the call is for no agents").WithField("hand_to").WithHint("give it back")
	}
	return t.Rules.HandOn(HandOn{Tool: s.Tool, Requester: cmp.Or(s.By, t.Facts.Requester()), By: r.Worker, From: *s.For, To: *r.HandTo})
}

// isEmpty reports whether a selection of agents has no criteria.
func isEmpty(a *events.Agents) bool { return a.Agent == "" && a.Type == "" && len(a.Requires) == 0 }

// maxHandOffs limits how often a call is handed from agent to agent. Without it, two agents could hand a call to each other
// forever.
const maxHandOffs = 100

// handOff returns the call of an agent to the queue for the agents in r.HandTo. An empty selection means the agents that the
// call is for already. The agent confirms that the call had no unknown effect, so the call is not in doubt.
func (t Attempts) handOff(s *statemachine.Step, r *work.Outcome) {
	if s.Attempt >= maxHandOffs {
		t.Failed(s, fault.New(fault.ToolFailed, "%d agents have handed the call on; the last one: %s", s.Attempt, r.Error.Message), r.Class, r.Duration)
		return
	}
	if isEmpty(r.HandTo) {
		r.HandTo = nil
	}
	at := t.Now
	if r.Error.RetryAt.After(at) {
		at = events.Time(r.Error.RetryAt)
	}
	t.Emit(events.StepRetrying, &events.Retrying{
		Step: s.Key, Attempt: s.Attempt, Error: r.Error, Class: fault.ClassHandoff, Duration: r.Duration, At: at, For: r.HandTo, Handed: t.value(r.Handed),
	})
}
