package orchestrator

import (
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// This file holds the rules for calls that take their workers with them, so that one of them neither
// runs for ever nor stops the others.

// suspectFrom is the number of lost workers from which on a call is a suspect: no worker gets two
// suspects at the same time. A call that only stood beside a poisonous one is then not lost with it again.
const suspectFrom = 2

func suspect(s *statemachine.Step) bool { return s.Lost >= suspectFrom }

// stopsPerDelivery is how many stops of its worker, which harm nobody else, count as one lost worker.
const stopsPerDelivery = 10

// spent reports whether a call whose worker has ended once more was handed out often enough.
func (t *turn) spent(s *statemachine.Step, class string) bool {
	if class == fault.ClassShutdown {
		return s.Stopped+1 >= t.o.cfg.MaxDeliveries*stopsPerDelivery
	}
	return s.Lost+1 >= t.o.cfg.MaxDeliveries
}

// outlived is the error of a call that is given up because its workers end.
func outlived(s *statemachine.Step, last *fault.Error) *fault.Error {
	ended := s.Lost + s.Stopped + 1
	if ended == 1 {
		return last
	}
	return fault.New(fault.WorkerLost, "the call has lost %d workers; of the last one: %s", ended, last.Message).
		WithReason("MAX_DELIVERIES").WithHint("look at the log of the workers and mend the tool, then orch redrive")
}

// interrupted reports whether a call of the class may have ended before its effect, or after it.
func interrupted(class string) bool {
	return class == fault.ClassWorkerLost || class == fault.ClassShutdown
}
