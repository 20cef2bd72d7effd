package orchestrator

import (
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// This file holds the notes of calls. A call that has begun something elsewhere leaves a note about it, and is handed
// out again with the note at once: it only looks after what it has begun, so it may be made any number of times.

// notes reports whether an outcome is that of a call which goes on elsewhere.
func notes(r work.Outcome) bool {
	return len(r.Note) > 0 && r.Error == nil && r.Ask == nil && r.Spawn == nil && len(r.Output) == 0
}

// cleanNote brings a note to the form of the log: compact, without secrets.
func (o *Orchestrator) cleanNote(note json.RawMessage) (json.RawMessage, error) {
	if len(note) == 0 {
		return nil, nil
	}
	clean, err := o.tidy(note)
	if err != nil {
		return nil, fault.From(err).WithField("note")
	}
	return clean, (&tools.Noted{Note: clean}).Check()
}

// goOnElsewhere keeps the note of a call, which is then ready again (callAgain). One too many ends the call.
func (t *turn) goOnElsewhere(s *statemachine.Step, r work.Outcome) {
	spent := s.Rounds >= tools.MaxRounds
	t.keepNote(s, r.Note, true)
	if spent {
		t.mayNot(s, tooManyRounds("note"), r.Duration)
	}
}

// keepNote writes a note into the log, also that of a call which may not go on: it says what goes on all the same.
func (t *turn) keepNote(s *statemachine.Step, note json.RawMessage, elsewhere bool) {
	t.emit(events.StepNoted, &events.Noted{Step: s.Key, Attempt: s.Attempt, Note: note, Elsewhere: elsewhere})
}

// mayNot ends a call that asks or notes what it may not.
func (t *turn) mayNot(s *statemachine.Step, err *fault.Error, took time.Duration) {
	t.emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: err, Class: fault.ClassInvalidArgs, Duration: took})
}

func tooManyRounds(field string) *fault.Error {
	return fault.New(fault.ValidationError, "the call has asked or left a note %d times, the limit", tools.MaxRounds).WithField(field)
}

// goesOn reports whether a step waits for a worker to look after what its call has begun elsewhere.
func goesOn(s *statemachine.Step) bool {
	return s.Noted() && (s.State == statemachine.StepReady || s.State == statemachine.StepPending)
}
