package orchestrator

import (
	"strconv"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// heard reports whether an outcome only repeats what was recorded before.
func heard(s *statemachine.Step, r work.Outcome) bool {
	if s.Attempt != r.Attempt || s.Worker != r.Worker {
		return false
	}
	switch s.State {
	case statemachine.StepSucceeded:
		return r.Error == nil && r.Ask == nil && len(r.Questions) == 0
	case statemachine.StepParked:
		return r.Ask != nil || len(r.Questions) > 0
	case statemachine.StepFailed, statemachine.StepPending:
		return r.Error != nil && r.Class == s.Class
	default:
		return false
	}
}

// refuse notes a result that came from an attempt that is no longer current (I7).
func (t *turn) refuse(s *statemachine.Step, r work.Outcome) {
	if s == nil || r.Class == classCancelled || r.Class == classShutdown {
		return
	}
	t.emit(events.ResultRefused, &events.Refused{Step: r.Step, Attempt: r.Attempt, Worker: r.Worker, Reason: "the step is " + string(s.State) + " in attempt " + strconv.Itoa(s.Attempt)})
}
