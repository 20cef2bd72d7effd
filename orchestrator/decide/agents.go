package decide

import (
	"cmp"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// Assign brings a task that nobody works on to ASSIGNED: an agent is given its first call (table T-1).
func (t Attempts) Assign(agent string) {
	if t.Task.State == statemachine.NeedsAction {
		t.Emit(events.TaskAssigned, &events.Moved{Reason: "given to " + agent})
	}
}

// TakeUp brings a task to IN_PROGRESS whose agent has said that it has the call, or how that ended.
func (t Attempts) TakeUp() {
	if t.Task.State == statemachine.Assigned {
		t.activate()
	}
}

// release brings a task back whose agent has given its call back, or was lost, before it began.
func (t Attempts) release() {
	if t.stopped() || t.Task.State != statemachine.Assigned {
		return
	}
	for _, s := range t.Task.Steps {
		if s.Executing() || s.State == statemachine.StepInDoubt {
			return
		}
	}
	t.Emit(events.TaskReleased, &events.Moved{Reason: "no agent has its call"})
}

// MayHandOn returns why an agent must not leave the call that it has to those whom it names. The call stays with it then.
func (t Attempts) MayHandOn(r work.Outcome) error {
	s := t.Task.Steps[r.Step]
	if r.HandTo == nil || nobody(r.HandTo) || s == nil || !t.Holds(r.Ref, r.Worker) {
		return nil
	}
	if s.For == nil {
		return fault.New(fault.ValidationError, "the call is for no agents").WithField("hand_to").WithHint("give it back")
	}
	return t.Rules.HandOn(HandOn{Tool: s.Tool, Requester: cmp.Or(s.By, t.Facts.Requester()), By: r.Worker, From: *s.For, To: *r.HandTo})
}

// nobody reports whether a selection names nobody in particular.
func nobody(a *events.Agents) bool { return a.Agent == "" && a.Type == "" && len(a.Requires) == 0 }

// maxHandOffs bounds how often a call goes from agent to agent: two that hand it to each other would go on for ever.
const maxHandOffs = 100

// handOff gives the call of an agent to others, for an empty selection to those that it was for. It says itself how far
// it came, so the call is in no doubt.
func (t Attempts) handOff(s *statemachine.Step, r work.Outcome) {
	if s.Attempt >= maxHandOffs {
		t.Failed(s, fault.New(fault.ToolFailed, "%d agents have handed the call on; the last one: %s", s.Attempt, r.Error.Message), r.Class, r.Duration)
		return
	}
	if nobody(r.HandTo) {
		r.HandTo = nil
	}
	at := t.Now
	if r.Error.RetryAt.After(at) {
		at = events.Time(r.Error.RetryAt)
	}
	t.Emit(events.StepRetrying, &events.Retrying{
		Step: s.Key, Attempt: s.Attempt, Error: r.Error, Class: fault.ClassHandoff, Duration: r.Duration, At: at, For: r.HandTo, Handed: t.keep(r.Handed),
	})
}
