package decide

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// limitReached returns QUOTA_EXCEEDED if a limit that does not depend on the size of the request is reached.
func (t turns) limitReached() *fault.Error {
	a := t.agent()
	switch {
	case a.Asked() >= a.Spec.MaxTurns:
		return fault.New(fault.QuotaExceeded, "the agent has asked its model %s, the limit", times(a.Spec.MaxTurns)).WithField("agent.max_turns")
	case a.Spec.Limit.Calls > 0 && a.Spent.Calls >= a.Spec.Limit.Calls:
		return fault.New(fault.QuotaExceeded, "the agent has made %s, its budget", count(a.Spent.Calls, "call")).WithField("agent.budget.calls")
	case a.Spec.Until != nil && !t.Now.Before(*a.Spec.Until):
		return fault.New(fault.QuotaExceeded, "the time of the agent was over at %s", Clock(*a.Spec.Until)).WithField("agent.budget.wall")
	default:
		return nil
	}
}

// mayFinish reports whether the agent may answer once more, without tools, when a limit is reached.
func (t turns) mayFinish() bool {
	last := t.agent().Last()
	return t.agent().Spec.OnExceeded == plan.OnExceededFinish && last != nil && !last.Requested.Final
}

// overhead is how many tokens a provider adds to a request.
const overhead = 1024

// reserve sets what a turn costs at most, from the size of its request and the limit of its answer. bytes are new in the request;
// a token has at least one byte. It returns QUOTA_EXCEEDED if the budget does not permit the turn.
func (t turns) reserve(turn *events.Turn, bytes int) *fault.Error {
	a := t.agent()
	request := t.known() + int64(bytes) + overhead
	for _, m := range a.Spec.Models {
		turn.Reserved.NanoUSD = max(turn.Reserved.NanoUSD, m.Price.Highest(request, a.Spec.MaxTokens))
	}
	turn.Reserved.Tokens = request + a.Spec.MaxTokens
	return exceeded(a, turn.Reserved)
}

// exceeded returns QUOTA_EXCEEDED if another request, which may cost next, exceeds a limit.
func exceeded(a *statemachine.Agent, next events.Spent) (err *fault.Error) {
	cost, limit := a.Spent.Plus(a.Lost).Plus(next), a.Spec.Limit
	switch {
	case limit.NanoUSD > 0 && cost.NanoUSD > limit.NanoUSD:
		err = fault.New(fault.QuotaExceeded, "the next request may cost $%s in all, more than $%s", events.Dollars(cost.NanoUSD), events.Dollars(limit.NanoUSD)).
			WithField("agent.budget.usd")
	case limit.Tokens > 0 && cost.Tokens > limit.Tokens:
		err = fault.New(fault.QuotaExceeded, "the next request may use %d tokens in all, more than %d", cost.Tokens, limit.Tokens).
			WithField("agent.budget.tokens")
	default:
		return nil
	}
	if a.Lost != (events.Spent{}) {
		err = err.WithHint("%d of the tokens may have been billed for answers that were lost", a.Lost.Tokens)
	}
	return err
}

// AsksModel reports whether the call of a step asks a model. Its start is recorded before the request, which may be billed.
func AsksModel(s *statemachine.Step) bool { return s.Purpose == purposeModel }

// ProviderOf returns the provider that the next attempt of a call asks first that asks a model; "" if the model has none.
func ProviderOf(t *statemachine.Task, s *statemachine.Step) string {
	key, _ := statemachine.SplitCall(s.Key)
	step := t.Steps[key]
	if step == nil || step.Agent == nil {
		return ""
	}
	names := step.Agent.Spec.ModelNames()
	return models.ProviderOf(names[FirstModel(s, len(names))])
}

// FirstModel returns the position of the model that a call asks first, of n models: after a failed attempt it is the next one.
func FirstModel(s *statemachine.Step, n int) int { return s.Failures % n }

// loseAnswer records that the answer of a model was lost, so that the provider may have billed the request. It returns
// QUOTA_EXCEEDED if the budget does not permit another one, unless a person is asked before it is sent (mayAskAgain).
func (t Attempts) loseAnswer(s *statemachine.Step, err *fault.Error, class string) *fault.Error {
	if !AsksModel(s) || s.State != statemachine.StepRunning || !maybeBilled(err, class) {
		return nil
	}
	t.emitLost(s)
	if tooLarge(err) {
		return nil // nobody asks again in this turn
	}
	agent := t.agentOf(s).Agent
	if t.turnsOf(s).asksForMore(agent.Reserved) {
		return nil
	}
	if err := exceeded(agent, agent.Reserved); err != nil {
		return err
	}
	return t.mayRepeat(agent)
}

// turnsOf returns the agent whose model a call asks.
func (t Attempts) turnsOf(s *statemachine.Step) turns {
	agent := t.agentOf(s)
	return turns{t.steps(), t.NodeByKey(agent.Key), agent}
}

// agentOf returns the agent step whose model a call asks.
func (t Attempts) agentOf(s *statemachine.Step) *statemachine.Step {
	return t.Task.Steps[statemachine.AgentOf(s.Key)]
}

// emitLost records that the answer to the newest attempt of a turn was lost.
func (t Attempts) emitLost(s *statemachine.Step) {
	turn := t.agentOf(s).Agent.Last().Requested
	t.Emit(events.TurnLost, &events.LostTurn{Step: statemachine.AgentOf(s.Key), Turn: turn.Turn, Attempt: s.Attempt, Cost: turn.Reserved})
}

// unheard reports whether a call asks the model of an agent that has ended: nobody needs its answer any more.
func (t Attempts) unheard(s *statemachine.Step) bool {
	return AsksModel(s) && t.agentOf(s).State.Terminal()
}

// failUnheard fails a call whose answer nobody needs. It is not repeated.
func (t Attempts) failUnheard(s *statemachine.Step, err *fault.Error, class string, took time.Duration) {
	if s.State == statemachine.StepRunning && maybeBilled(err, class) {
		t.emitLost(s)
	}
	t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: err, Class: class, Duration: took})
}

// tooLarge reports whether an answer came, and exceeds the context of its model or a limit of the wire or of the results of calls.
func tooLarge(err *fault.Error) bool {
	return err.Reason == models.ReasonTooLarge || err.Reason == models.ReasonOverrun
}

// maybeBilled reports whether a provider may have billed a request that failed: it was sent, and the provider has not refused it.
func maybeBilled(err *fault.Error, class string) bool {
	return err.Code == fault.NetworkError || tooLarge(err) || interrupted(class) || class == fault.ClassShutdown || class == fault.ClassTimeout
}
