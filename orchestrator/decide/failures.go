package decide

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// Failed records the error of an attempt. Afterwards the step waits for another attempt, is in doubt, or has failed.
func (t Attempts) Failed(s *statemachine.Step, err *fault.Error, class string, took time.Duration) {
	if t.unheard(s) {
		t.failUnheard(s, err, class, took)
		return
	}
	if over := t.loseAnswer(s, err, class); over != nil {
		t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: over, Class: fault.ClassBudget, Duration: took})
		return
	}
	if interrupted(class) && s.RunsElsewhere() && !t.outOfDeliveries(s, class) {
		t.Emit(events.StepRetrying, &events.Retrying{Step: s.Key, Attempt: s.Attempt, Error: err, Class: class, Duration: took, At: t.Now})
		return // retryCalls makes it ready
	}
	if (interrupted(class) || err.Code == fault.InDoubt) && mayHaveHappened(s) {
		t.Emit(events.StepInDoubt, &events.InDoubt{Step: s.Key, Attempt: s.Attempt, Reason: err.Message, DropsNote: !interrupted(class), Until: t.MayRun})
		return
	}
	if class == fault.ClassShutdown && !t.outOfDeliveries(s, class) {
		at := t.Now
		if err.RetryAt.After(at) {
			at = events.Time(err.RetryAt)
		}
		t.Emit(events.StepRetrying, &events.Retrying{Step: s.Key, Attempt: s.Attempt, Error: err, Class: class, Duration: took, At: at})
		return
	}
	if at, again := t.nextAttempt(s, err, class); again {
		if err.RetryAt.After(at) {
			at = events.Time(err.RetryAt)
		}
		t.Emit(events.StepRetrying, &events.Retrying{Step: s.Key, Attempt: s.Attempt, Counts: true, Error: err, Class: class, Duration: took, At: at, KeepsGrant: t.keepsGrant(s, class), Output: t.unexpected.value()})
		return
	}
	if interrupted(class) {
		err = errOutOfDeliveries(s, class, err)
	}
	t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: err, Class: class, Duration: took, Output: t.unexpected.value()})
}

// ruleFor returns the retry rule of a call: the rule of the plan, or else the rule that the agent has requested, if the call
// has no effects.
func (t Attempts) ruleFor(n *plan.Node, effect plan.Effect) *plan.Retry {
	if rule := t.retryOf(n); rule != nil || t.requestedRetry == nil || effect != plan.EffectRead && effect != plan.EffectIdempotent {
		return rule
	}
	return plan.NewRetry(t.requestedRetry.Max+1, t.requestedRetry.Backoff)
}

// retriedAs returns the node with the retry rule of a call; nil for a call that is not retried. Calls of agents have rules of their
// own.
func (t *Reading) retriedAs(s *statemachine.Step) *plan.Node {
	switch s.Purpose {
	case "":
		return t.NodeByKey(s.Key)
	case purposeModel:
		return &plan.Node{Step: &plan.Step{Retry: modelRetry()}}
	case purposeAgent:
		return &plan.Node{Step: &plan.Step{}}
	default:
		return nil
	}
}

// modelRetry returns the retry rule of calls that ask a model: a provider that is not reached, limits the rate or does not end its answer
// is asked again. Any other error would be the same.
func modelRetry() *plan.Retry {
	rule := plan.NewRetry(modelAttempts, time.Second)
	rule.On = []string{fault.ClassTransport, fault.ClassRateLimited, fault.ClassTimeout, fault.ClassHeartbeatLost, fault.ClassWorkerLost}
	return rule
}

// nextAttempt returns when the next attempt of a failed call is due according to its retry rule; false if there is none.
func (t Attempts) nextAttempt(s *statemachine.Step, err *fault.Error, class string) (time.Time, bool) {
	if t.Task.Cancelling || (interrupted(class) && t.outOfDeliveries(s, class)) {
		return time.Time{}, false
	}
	n := t.retriedAs(s)
	if n == nil {
		return time.Time{}, false
	}
	effect := plan.Effect(s.Effect)
	rule, failures := t.ruleFor(n, effect), s.Failures+1
	if s.State == statemachine.StepReady {
		effect = plan.EffectRead // the call has not started, so it can be repeated
	}
	if end := t.Task.Submitted.Deadline; class == fault.ClassRateLimited && end != nil && err.RetryAt.After(*end) {
		return time.Time{}, false // the rate limit lasts beyond the end of the task
	}
	attempt := plan.Attempt{Number: failures, Class: class, Code: string(err.Code), Message: err.Message, Output: t.unexpected.text()}
	if !rule.Allows(class, failures, effect) || !n.RetryWhen(attempt) {
		return time.Time{}, false
	}
	return events.Time(t.Now.Add(rule.Delay(failures, t.Rules.Random()))), true
}

// stopsPerDelivery is how many worker shutdowns count as one lost worker. A shutdown does less harm than a loss.
const stopsPerDelivery = 10

// outOfDeliveries reports whether a call has reached the limit of deliveries with this loss or shutdown of its worker.
func (t Attempts) outOfDeliveries(s *statemachine.Step, class string) bool {
	if class == fault.ClassShutdown {
		return s.Stopped+1 >= t.Rules.MaxDeliveries*stopsPerDelivery
	}
	return s.Lost+1 >= t.Rules.MaxDeliveries
}

// errOutOfDeliveries returns the error of a call that has reached the limit of deliveries.
func errOutOfDeliveries(s *statemachine.Step, class string, last *fault.Error) *fault.Error {
	ended := s.Lost + s.Stopped + 1
	switch {
	case ended == 1:
		return last
	case s.For != nil && class == fault.ClassShutdown:
		return errUnwanted(s.Lost, s.Stopped+1, last)
	case s.For != nil:
		return errUnwanted(s.Lost+1, s.Stopped, last)
	}
	return fault.New(fault.WorkerLost, "the call has lost %d workers; of the last one: %s", ended, last.Message).
		WithReason("MAX_DELIVERIES").WithHint("look at the log of the workers and mend the tool, then orch redrive")
}

// errUnwanted returns the error of a call that agents returned or lost too often.
func errUnwanted(lost, back int, last *fault.Error) *fault.Error {
	return fault.New(fault.WorkerLost, "%s; the last one: %s", Unended(lost, back), last.Message).
		WithReason("MAX_DELIVERIES").WithHint("orch history shows their reasons; remove these, then orch redrive")
}

// Unended returns a sentence: how often agents have returned a call, and how often it was lost with them or left in doubt.
func Unended(lost, back int) string {
	text := "agents have given it back " + times(back)
	switch {
	case lost == 0:
		return text
	case back == 0:
		return "it was lost with agents, or in doubt, " + times(lost)
	}
	return text + ", and it was lost with them, or in doubt, " + times(lost)
}
