package statemachine

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Phase is what an agent step does at the moment.
type Phase string

// The phases. An agent is idle before each turn.
const (
	AgentIdle   Phase = "idle"
	AgentAsking Phase = "asking" // the model is asked
	AgentActing Phase = "acting" // the calls that the model requested run
)

// TurnTransition is one row of the table of agents.
type TurnTransition struct {
	Kind    events.Kind
	From    []Phase
	To      Phase
	Trigger string
}

// TurnTable returns the transitions of an agent. turn.answered leads to idle if the model requested no calls.
func TurnTable() []TurnTransition {
	return []TurnTransition{
		{events.TurnRequested, []Phase{AgentIdle, AgentActing}, AgentAsking, "the conversation goes on: all calls of the turn before have ended"},
		{events.TurnAnswered, []Phase{AgentAsking}, AgentActing, "the model has answered"},
		{events.TurnLost, []Phase{AgentAsking}, AgentAsking, "the answer was lost on its way"},
		{events.TurnRefused, []Phase{AgentAsking}, AgentIdle, "the request is too long for the model"},
		{events.AgentExtended, []Phase{AgentIdle, AgentAsking, AgentActing}, "", "a person permits more than the budget; the phase stays"},
		{events.AgentTold, []Phase{AgentIdle, AgentAsking, AgentActing}, "", "a person says something; the phase stays"},
	}
}

// defaultKeep is how many of the newest turns stay as they are when a refused request makes the conversation shorter, unless the plan
// says it.
const defaultKeep = 4

// Agent is the fold of the events of an agent step.
type Agent struct {
	Spec  *events.Agent `json:"spec"`
	Phase Phase         `json:"phase"`
	// Turns are the turns in order.
	Turns []Turn `json:"turns,omitempty"`
	// Spent is what the answered turns cost, and the tasks that their calls have started. Reserved is the highest cost of the turn that has no answer yet.
	Spent    events.Spent `json:"spent,omitzero"`
	Reserved events.Spent `json:"reserved,omitzero"`
	// Lost is what requests whose answers were lost cost at most. It counts against the limit as what is spent does.
	Lost events.Spent `json:"lost,omitzero"`
	// Told are the messages of people that the model has not heard. Dismissed is set if the agent ends instead of waiting for another.
	Told      []events.Message `json:"told,omitempty"`
	Dismissed bool             `json:"dismissed,omitempty"`
	// Refused counts the turns whose requests were too long. They are no requests that max_turns limits.
	Refused int `json:"refused,omitempty"`
	// Extensions counts how often a person has permitted more than the budget.
	Extensions int `json:"extensions,omitempty"`
	// BeyondBudgets is set while the budgets of the node do not hold the agent, because a person has permitted it.
	BeyondBudgets bool `json:"beyond_budgets,omitempty"`
}

// Turn is one request to a model and its answer.
type Turn struct {
	Requested *events.Turn `json:"requested"`
	// Answered is nil until the model has answered. Refused is set instead if the request was too long.
	Answered *events.Answered    `json:"answered,omitempty"`
	Refused  *events.RefusedTurn `json:"refused,omitempty"`
	// Charged is what the tasks have cost that the calls of the turn have started.
	Charged events.Spent `json:"charged,omitzero"`
}

// Last returns the newest turn; nil before the first.
func (a *Agent) Last() *Turn {
	if len(a.Turns) == 0 {
		return nil
	}
	return &a.Turns[len(a.Turns)-1]
}

// Asked returns the number of requests to the model, without those that were too long for it.
func (a *Agent) Asked() int { return len(a.Turns) - a.Refused }

// Limit returns the limit of the conversation: that of the newest refused turn, or else that of the plan; nil for none.
func (a *Agent) Limit() *events.Context {
	if a.Refused == 0 {
		return a.Spec.Context
	}
	for _, turn := range slices.Backward(a.Turns) {
		if turn.Refused == nil {
			continue
		}
		limit := events.Context{CompactAt: turn.Refused.CompactAt, Keep: defaultKeep}
		if a.Spec.Context != nil {
			limit.Keep = a.Spec.Context.Keep
		}
		return &limit
	}
	return a.Spec.Context
}

// Shortened reports whether a turn, from 1, is a compaction that shows only excerpts of the conversation: the one before it was
// refused.
func (a *Agent) Shortened(turn int) bool { return turn > 1 && a.Turns[turn-2].Refused != nil }

// Compacted returns the newest turn whose answer is the summary of the turns before it; nil if there is none.
func (a *Agent) Compacted() *events.Turn {
	for _, turn := range slices.Backward(a.Turns) {
		if turn.Requested.Summarizes > 0 && turn.Answered != nil {
			return turn.Requested
		}
	}
	return nil
}

// Waits reports whether the agent waits for a message: it chats, its model has answered, and nobody has said anything since.
func (a *Agent) Waits() bool {
	last := a.Last()
	return a.Spec.Chat && !a.Dismissed && a.Phase == AgentIdle && len(a.Told) == 0 && last != nil && last.Refused == nil &&
		last.Requested.Summarizes == 0
}

// ModelKey returns the key of the step that asks the model in a turn of an agent step.
func ModelKey(agent string, turn int) string { return agent + ".t" + strconv.Itoa(turn) + ".m" }

// CallKey returns the key of the step of a call that the model requested in a turn, from 1.
func CallKey(agent string, turn, call int) string {
	return agent + ".t" + strconv.Itoa(turn) + ".c" + strconv.Itoa(call)
}

// BudgetKey returns the key of the step that asks, for the nth time from 1, whether an agent may use more than its budget.
func BudgetKey(agent string, n int) string { return agent + ".b" + strconv.Itoa(n) }

// SplitCall divides the key of a step of a turn into the key of its agent step and the rest: review.t3.c1 into review and t3.c1,
// each[2].review.t3.c1 into each[2].review and t3.c1. The rest of any other key is "".
func SplitCall(key string) (agent, call string) {
	start := strings.LastIndexByte(key, ']') + 1
	if start > 0 && start < len(key) {
		start++ // the point after the index of the item
	}
	id, call, _ := strings.Cut(key[start:], ".")
	return key[:start+len(id)], call
}

// SplitTurn divides the name of a turn into the key of its agent step and its number, from 1: review.t5 into review and 5. It returns
// "" for any other text.
func SplitTurn(name string) (agent string, turn int) {
	agent, rest := SplitCall(name)
	number, ok := strings.CutPrefix(rest, "t")
	turn, err := strconv.Atoi(number)
	if !ok || err != nil || turn < 1 {
		return "", 0
	}
	return agent, turn
}

// AgentOf returns the key of the agent step that a step of a turn belongs to. It returns any other key as it is.
func AgentOf(key string) string {
	agent, _ := SplitCall(key)
	return agent
}

// Calls yields the keys of the calls of an agent step, in the order of its turns: of each turn the one that asks the model, and then
// those that the model requested.
func (a *Agent) Calls(agent string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, turn := range a.Turns {
			if !yield(ModelKey(agent, i+1)) {
				return
			}
			for call := 1; turn.Answered != nil && call <= turn.Answered.Calls; call++ {
				if !yield(CallKey(agent, i+1, call)) {
					return
				}
			}
		}
	}
}

// isTurnEvent reports whether events of the kind change an agent and not the state of its step.
func isTurnEvent(kind events.Kind) bool {
	switch kind {
	case events.TurnRequested, events.TurnAnswered, events.TurnLost, events.TurnRefused, events.AgentExtended, events.AgentTold:
		return true
	default:
		return false
	}
}

// turn folds an event of a turn. An answer can also be lost after the agent has ended.
func (t *Task) turn(e events.Event) error {
	key := events.StepOf(e.Data)
	s := t.Steps[key]
	if s == nil || s.Agent == nil || s.State != StepRunning && e.Kind != events.TurnLost {
		return fault.New(fault.StateNotAllowed, "step %s is no running agent: %s is not possible", key, e.Kind)
	}
	return s.Agent.apply(e)
}

// apply folds an event of a turn, or returns STATE_NOT_ALLOWED.
func (a *Agent) apply(e events.Event) error {
	to, err := a.next(e)
	if err != nil {
		return err
	}
	switch d := e.Data.(type) {
	case *events.Turn:
		a.Turns = append(a.Turns, Turn{Requested: d})
		a.Reserved = d.Reserved
		a.Told = a.Told[min(len(d.Heard), len(a.Told)):]
	case *events.Answered:
		a.Last().Answered = d
		a.Spent = a.Spent.Plus(d.Cost())
		a.Reserved = events.Spent{}
	case *events.LostTurn:
		a.Lost = a.Lost.Plus(d.Cost)
	case *events.RefusedTurn:
		a.refuse(d)
	case *events.Extended:
		a.extend(d)
	case *events.Told:
		a.tell(d)
	}
	a.Phase = to
	return nil
}

// charge adds what a task has cost that a call of the newest turn has started.
func (a *Agent) charge(cost events.Spent) {
	a.Spent = a.Spent.Plus(cost)
	if last := a.Last(); last != nil {
		last.Charged = last.Charged.Plus(cost)
	}
}

// tell adds a message that the model has not heard.
func (a *Agent) tell(d *events.Told) {
	if !d.Text.IsZero() {
		a.Told = append(slices.Clip(a.Told), d.Message)
	}
	a.Dismissed = a.Dismissed || d.End
}

// refuse ends a turn without an answer. What people have said in it is heard in a later turn.
func (a *Agent) refuse(d *events.RefusedTurn) {
	last := a.Last()
	last.Refused = d
	a.Refused++
	a.Reserved = events.Spent{}
	a.Told = slices.Concat(last.Requested.Heard, a.Told)
}

// extend replaces the limits. The specification is that of an event, so it is copied.
func (a *Agent) extend(d *events.Extended) {
	spec := *a.Spec
	spec.MaxTurns, spec.Limit, spec.Until = d.MaxTurns, d.Limit, d.Until
	a.Spec = &spec
	a.Extensions++
	a.BeyondBudgets = d.BeyondBudgets
}

// next returns the phase after an event, or STATE_NOT_ALLOWED.
func (a *Agent) next(e events.Event) (Phase, error) {
	number := len(a.Turns) + 1
	for _, row := range TurnTable() {
		if row.Kind != e.Kind || !slices.Contains(row.From, a.Phase) {
			continue
		}
		switch d := e.Data.(type) {
		case *events.Turn:
			if d.Turn == number {
				return row.To, nil
			}
		case *events.Answered:
			if d.Turn == number-1 && d.Calls == 0 {
				return AgentIdle, nil
			}
			if d.Turn == number-1 {
				return row.To, nil
			}
		case *events.LostTurn:
			if d.Turn == number-1 {
				return row.To, nil
			}
		case *events.RefusedTurn:
			if d.Turn == number-1 {
				return row.To, nil
			}
		case *events.Extended, *events.Told:
			return a.Phase, nil
		}
	}
	return "", fault.New(fault.StateNotAllowed, "the agent is %s in turn %d: %s is not possible", a.Phase, number-1, e.Kind)
}
