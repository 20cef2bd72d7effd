package orchestrator

import (
	"strconv"

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
func (t *reading) spent(s *statemachine.Step, class string) bool {
	if class == fault.ClassShutdown {
		return s.Stopped+1 >= t.rules.maxDeliveries*stopsPerDelivery
	}
	return s.Lost+1 >= t.rules.maxDeliveries
}

// outlived is the error of a call that is given up because its workers end, or agents do not want it.
func outlived(s *statemachine.Step, class string, last *fault.Error) *fault.Error {
	ended := s.Lost + s.Stopped + 1
	switch {
	case ended == 1:
		return last
	case s.For != nil && class == fault.ClassShutdown:
		return unwanted(s.Lost, s.Stopped+1, last)
	case s.For != nil:
		return unwanted(s.Lost+1, s.Stopped, last)
	}
	return fault.New(fault.WorkerLost, "the call has lost %d workers; of the last one: %s", ended, last.Message).
		WithReason("MAX_DELIVERIES").WithHint("look at the log of the workers and mend the tool, then orch redrive")
}

// unwanted is the error of a call that agents did not end so often.
func unwanted(lost, back int, last *fault.Error) *fault.Error {
	return fault.New(fault.WorkerLost, "%s; the last one: %s", unended(lost, back), last.Message).
		WithReason("MAX_DELIVERIES").WithHint("orch history says what the agents said; mend that, then orch redrive")
}

// unended says how often agents have given a call back, and how often it was lost with them or left in doubt.
func unended(lost, back int) string {
	said := "agents have given it back " + times(back)
	switch {
	case lost == 0:
		return said
	case back == 0:
		return "it was lost with agents, or in doubt, " + times(lost)
	}
	return said + ", and it was lost with them, or in doubt, " + times(lost)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// interrupted reports whether a call of the class may have ended before its effect, or after it.
func interrupted(class string) bool {
	return class == fault.ClassWorkerLost || class == fault.ClassShutdown
}
