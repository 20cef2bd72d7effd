package crash

import (
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// ModelRequest is a request to a provider of models outside of the node, as the provider has seen it.
type ModelRequest struct {
	// Answer names the answer that is asked for: the task and the step, such as TASK_1/a.t1.m.
	Answer string
	// Digest is that of the body of the request.
	Digest string
	// Heard are the messages of people in the conversation, in order.
	Heard []string
	// Billed is what the provider bills; zero if it has refused the request.
	Billed events.Spent
}

// agentHistory is the history of the turns of an agent step.
type agentHistory struct {
	// models are the models that it may ask.
	models []string
	// asked and answered are the newest turns that were requested and answered. reserved is the highest cost of the turn without an
	// answer; zero if there is none.
	asked, answered int
	reserved        events.Spent
	// most is the highest cost of a request of the newest turn.
	most events.Spent
	// tokens is what the agent has used of limit.
	tokens, limit int64
	// billable is what the history says about the bills of each turn.
	billable map[int]billable
}

// billable is what the history says about the bills of a turn: how many requests may have been billed, and what all of them may cost.
type billable struct {
	requests int
	cost     events.Spent
}

func newAgentHistory(d *events.Agent) *agentHistory {
	a := &agentHistory{limit: d.Limit.Tokens, tokens: d.Carried.Tokens + d.Lost.Tokens, billable: map[int]billable{}}
	for _, m := range d.Models {
		a.models = append(a.models, m.Name)
	}
	return a
}

// mayBill records that a request of a turn may have been billed.
func (a *agentHistory) mayBill(turn int, cost events.Spent) {
	b := a.billable[turn]
	a.billable[turn] = billable{b.requests + 1, b.cost.Plus(cost)}
}

// turn checks that the turns of an agent follow each other, each with one answer (I3), and that no turn was begun that could have
// exceeded the budget of the agent.
func (h *history) turn(key string, e events.Event) {
	s := h.steps[key]
	if s == nil || s.agent == nil || s.state != statemachine.StepRunning && e.Kind != events.TurnLost { // an answer can be lost after the end
		h.violate("I3", "%s of step %s, which does not run", e.Kind, key)
		return
	}
	a := s.agent
	switch d := e.Data.(type) {
	case *events.Turn:
		h.asked(key, a, d)
	case *events.Answered:
		if d.Turn != a.asked || a.answered != a.asked-1 {
			h.violate("I3", "an answer to turn %d of step %s in turn %d, which has %d answers", d.Turn, key, a.asked, a.answered)
		}
		a.answered = d.Turn
		a.mayBill(d.Turn, d.Cost())
		a.tokens += d.Cost().Tokens
		h.answered(a, d)
	case *events.RefusedTurn:
		if d.Turn != a.asked || a.answered != a.asked-1 {
			h.violate("I3", "turn %d of step %s is refused in turn %d, which has %d answers", d.Turn, key, a.asked, a.answered)
		}
		a.answered = d.Turn // it has none, and costs nothing
		h.reserve(a, events.Spent{})
	case *events.Extended:
		if !h.granted[d.Approval] {
			h.violate("I3", "the budget of step %s is extended by %s, which is no grant or was used before", key, d.Approval)
		}
		delete(h.granted, d.Approval)
		a.limit = d.Limit.Tokens
	case *events.LostTurn:
		if d.Turn != a.asked || a.answered != a.asked-1 {
			h.violate("I3", "turn %d of step %s is lost in turn %d, which has %d answers", d.Turn, key, a.asked, a.answered)
		}
		a.tokens += d.Cost.Tokens
		a.mayBill(d.Turn, d.Cost)
		h.lost(a, d.Cost)
		h.reserve(a, events.Spent{}) // until the request is repeated
	}
}

// askAgain looks at the start of a call that may repeat the request of a turn whose answer was lost.
func (h *history) askAgain(key string) {
	agent := statemachine.AgentOf(key)
	s := h.steps[agent]
	if s != nil && s.agent != nil && s.agent.asked > s.agent.answered && key == statemachine.ModelKey(agent, s.agent.asked) {
		h.reserve(s.agent, s.agent.most)
	}
}

// asked checks a turn that begins.
func (h *history) asked(key string, a *agentHistory, d *events.Turn) {
	if d.Turn != a.asked+1 || a.asked != a.answered {
		h.violate("I3", "turn %d of step %s follows turn %d with %d answers", d.Turn, key, a.asked, a.answered)
	}
	if a.limit > 0 && a.tokens+d.Reserved.Tokens > a.limit {
		h.violate("I3", "turn %d of step %s may use %d of %d tokens", d.Turn, key, a.tokens+d.Reserved.Tokens, a.limit)
	}
	a.asked, a.most = d.Turn, d.Reserved
	h.reserve(a, d.Reserved)
}

// endTurn looks at an event that ends a step, before it is applied: a cancelled request may be billed as well, and an agent that has ended
// reserves nothing.
func (h *history) endTurn(key string, e events.Event) {
	agentKey := statemachine.AgentOf(key)
	agent := h.steps[agentKey]
	if agent == nil || agent.agent == nil || agent.agent.asked == agent.agent.answered {
		return
	}
	a, asked := agent.agent, statemachine.ModelKey(agentKey, agent.agent.asked)
	answer := h.steps[asked]
	running := answer != nil && answer.state == statemachine.StepRunning
	unread := key == agentKey && answer != nil && answer.state == statemachine.StepSucceeded
	if e.Kind == events.StepCancelled && (key == asked && running || unread) {
		a.mayBill(a.asked, a.reserved)
		h.lost(a, a.reserved)
	}
	if key == agentKey && !running || key == asked && (e.Kind == events.StepCancelled || e.Kind == events.StepFailed) {
		h.reserve(a, events.Spent{})
	}
}

// beyondBudget reports whether a step fails because a budget of the node is used up, as some must.
func (h *history) beyondBudget(s *stepHistory, d *events.StepError) bool {
	return s.agent != nil && d.Error.Code == fault.QuotaExceeded && slices.ContainsFunc(h.evidence.Budgets, func(b Budget) bool {
		return b.counts(h.origin, s.agent.models)
	})
}

// checkBills compares the bills of the provider with the turns of the agents (I18, I20).
func (h *history) checkBills() {
	for key, s := range h.steps {
		if s.agent == nil {
			continue
		}
		if h.ends == 0 && s.agent.asked > s.agent.answered {
			s.agent.mayBill(s.agent.asked, s.agent.reserved) // the answer may be on its way
		}
		for turn := 1; turn <= s.agent.asked; turn++ {
			h.checkBill(statemachine.ModelKey(key, turn), s.agent.billable[turn])
		}
	}
}

// checkBill compares the bills for an answer with what the history says about them.
func (h *history) checkBill(asked string, known billable) {
	requests := h.requests[string(h.task)+"/"+asked]
	count, cost := 0, events.Spent{}
	for _, r := range requests {
		if r.Digest != requests[0].Digest {
			h.violate("I18", "step %s was asked for with two different requests", asked)
		}
		if r.Billed != (events.Spent{}) {
			count, cost = count+1, cost.Plus(r.Billed)
		}
	}
	if count > known.requests {
		h.violate("I18", "step %s was billed %d times, of which the history has %d", asked, count, known.requests)
	}
	if exceeds(cost, known.cost) {
		h.violate("I20", "step %s was billed with %v, of which the history has %v", asked, cost, known.cost)
	}
}

// exceeds reports whether a cost is more than another one.
func exceeds(cost, limit events.Spent) bool {
	return cost.Tokens > limit.Tokens || cost.NanoUSD > limit.NanoUSD
}
