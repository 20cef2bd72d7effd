package decide

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// maxContinued limits the turns that a task can take over of an agent of another task: they are in its first commit.
const maxContinued = 3000

// Continued is an agent step of a task that goes on where the same step of another task stood: with its first turns, whose answers
// are not asked for and not paid again.
type Continued struct {
	// Step is the key of the step, Turns how many turns are taken over.
	Step  string
	Turns int

	spec *events.Agent
	// left is what is left of the time of the agent; nil if it has no limit, or all of it.
	left *time.Duration
	// history are the events of the turns. told is what people have said since then.
	history []events.Event
	told    []events.Message
}

// Stands reports whether the key is that of a call that is taken over.
func (c *Continued) Stands(key string) bool {
	for _, e := range c.history {
		if events.StepOf(e.Data) == key {
			return true
		}
	}
	return false
}

// Continue returns how an agent step of a new task with the same plan goes on where it stood in past, which is t.Task at some
// revision. inputs are the inputs of the new task, before is the first turn that is not taken over; 0 takes as many as possible: all
// that requested calls. It returns nil if the step has to begin anew: its instructions or its prompt are others, or it has no turn
// to take over. Values that are not in memory are added to Missing; the answer is then incomplete.
func (t *Reading) Continue(past *statemachine.Task, step string, inputs json.RawMessage, before int) *Continued {
	n := t.Plan.Program.Node(step)
	if n == nil {
		return nil
	}
	sc := t.scope(nil)
	sc.Inputs = inputs
	return t.continueIn(past, n, step, sc, before)
}

// continueIn is Continue for an instance of a node with a scope.
func (t *Reading) continueIn(past *statemachine.Task, n *plan.Node, step string, sc plan.Scope, before int) *Continued {
	s := past.Steps[step]
	if n.Kind != plan.KindAgent || s == nil || s.Agent == nil {
		return nil
	}
	kept := keptTurns(s.Agent, before)
	spec := t.continuedSpec(n, s.Agent.Spec, sc)
	if len(kept) == 0 || spec == nil {
		return nil
	}
	spec.Carried, spec.Lost = chargedIn(kept), events.Spent{}
	c := &Continued{Step: step, Turns: len(kept), spec: spec}
	if len(kept) < len(s.Agent.Turns) {
		c.told = s.Agent.Turns[len(kept)].Requested.Heard
	}
	for i, turn := range kept {
		if turn.Answered != nil {
			turn.Answered = answeredBy(turn.Answered, s.Agent.Spec, spec)
		}
		c.history = append(c.history, turnEvents(past, step, turn, i == len(kept)-1)...)
	}
	return c
}

// withBudget lets the budget go on as well: all that the agent has used counts, also in turns that are not taken over.
func (c *Continued) withBudget(past *statemachine.Task) *Continued {
	s := past.Steps[c.Step]
	a := s.Agent
	c.told = append(slices.Clone(c.told), a.Told...)
	spec := *c.spec
	spec.Carried = a.Spent.Minus(spentIn(a.Turns[:c.Turns])) // with all that its children have cost
	spec.Lost = a.Lost
	asked := past.Steps[statemachine.ModelKey(c.Step, len(a.Turns))]
	if asked.State == statemachine.StepCancelled && !asked.CalledAt.IsZero() { // the provider may have billed it
		spec.Lost = spec.Lost.Plus(a.Reserved)
	}
	c.spec = &spec
	if until := a.Spec.Until; until != nil {
		c.left = new(until.Sub(s.Since))
	}
	return c
}

// continuedSpec returns the specification of an agent that goes on: that of before, with the models that the plan now names. It
// returns nil if the conversation would begin in another way.
func (t *Reading) continuedSpec(n *plan.Node, before *events.Agent, sc plan.Scope) *events.Agent {
	p, err := n.Persona(sc)
	if err != nil || p.Prompt != t.text(before.Prompt) || p.Instructions != t.text(before.Instructions) {
		return nil
	}
	spec := *before
	if spec.Models, err = t.modelsOf(p, n.Agent.Budget); err != nil {
		return nil
	}
	return &spec
}

// keptTurns returns the turns up to the first whose answer was the last one, or was not accepted: it requested no calls, was no
// summary, and nobody has answered it.
func keptTurns(a *statemachine.Agent, before int) []statemachine.Turn {
	for i, turn := range a.Turns {
		if i == maxContinued || i+1 == before || turn.Answered == nil && turn.Refused == nil {
			return a.Turns[:i]
		}
		if turn.Refused != nil {
			continue
		}
		goesOn := turn.Answered.Calls > 0 || isCompaction(turn) || i+1 < len(a.Turns) && len(a.Turns[i+1].Requested.Heard) > 0
		if !goesOn {
			return a.Turns[:i]
		}
	}
	return a.Turns
}

// spentIn returns what turns have cost.
func spentIn(turns []statemachine.Turn) (sum events.Spent) {
	for _, turn := range turns {
		if turn.Answered != nil {
			sum = sum.Plus(turn.Answered.Cost())
		}
	}
	return sum
}

// chargedIn returns what the tasks have cost that the calls of turns have started.
func chargedIn(turns []statemachine.Turn) (sum events.Spent) {
	for _, turn := range turns {
		sum = sum.Plus(turn.Charged)
	}
	return sum
}

// turnEvents returns the events of a turn and its calls in a task that goes on from past. Calls of the last turn that have no result
// are left out, so that they are made again.
func turnEvents(past *statemachine.Task, step string, turn statemachine.Turn, last bool) []events.Event {
	asked := statemachine.ModelKey(step, turn.Requested.Turn)
	if turn.Refused != nil {
		s := past.Steps[asked]
		return []events.Event{
			{Kind: events.TurnRequested, Data: turn.Requested},
			{Kind: events.StepFailed, Data: &events.StepError{Step: asked, Class: s.Class, Tool: s.Tool, Args: s.Args, Purpose: purposeModel, Error: s.Error}},
			{Kind: events.TurnRefused, Data: turn.Refused},
		}
	}
	all := []events.Event{
		{Kind: events.TurnRequested, Data: turn.Requested},
		{Kind: events.StepReused, Data: &events.Reused{Step: asked, From: past.ID, Output: past.Steps[asked].Output}},
		{Kind: events.TurnAnswered, Data: turn.Answered},
	}
	for call := range turn.Answered.Calls {
		key := statemachine.CallKey(step, turn.Requested.Turn, call+1)
		switch s := past.Steps[key]; {
		case s == nil:
		case s.State == statemachine.StepSucceeded:
			all = append(all, events.Event{Kind: events.StepReused, Data: &events.Reused{Step: key, From: past.ID, Output: s.Output}})
			for _, r := range s.Reads {
				all = append(all, events.Event{Kind: events.FileRead, Data: &r})
			}
		case s.State == statemachine.StepFailed:
			all = append(all, events.Event{Kind: events.StepFailed, Data: &events.StepError{
				Step: key, Class: s.Class, Tool: s.Tool, Args: s.Args, Purpose: purposeAgent, Error: s.Error,
			}})
		case s.State == statemachine.StepCancelled && !last:
			all = append(all, events.Event{Kind: events.StepCancelled, Data: &events.Skipped{Step: key, Reason: s.Reason}})
		}
	}
	return all
}

// answeredBy returns an answer that an agent with the specification before has got as one of an agent with the specification after, which
// may ask other models.
func answeredBy(d *events.Answered, before, after *events.Agent) *events.Answered {
	again, name := *d, before.ModelOf(d)
	again.Model, again.ModelName = slices.Index(after.ModelNames(), name), ""
	if again.Model < 0 {
		again.Model, again.ModelName = 0, name
	}
	return &again
}

// GoOn starts an agent step that continues one of another task.
func (t *Turn) GoOn(c *Continued) {
	spec := *c.spec
	spec.Instructions, spec.Prompt, spec.Tools = t.again(spec.Instructions), t.again(spec.Prompt), t.again(spec.Tools)
	if c.left != nil {
		spec.Until = new(events.Time(t.Now.Add(*c.left)))
	} else if b := t.NodeByKey(c.Step).Agent.Budget; b != nil && b.Wall > 0 {
		spec.Until = new(events.Time(t.Now.Add(b.Wall.Std())))
	}
	t.Emit(events.AgentStarted, &spec)
	for _, e := range c.history {
		switch d := e.Data.(type) {
		case *events.Turn:
			again := *d
			again.Heard = t.heardAgain(d.Heard)
			e.Data = &again
		case *events.Reused:
			again := *d
			again.Output = t.again(d.Output)
			e.Data = &again
		case *events.StepError:
			again := *d
			again.Args = t.again(d.Args)
			e.Data = &again
		}
		t.Emit(e.Kind, e.Data)
	}
	for _, m := range t.heardAgain(c.told) {
		t.Emit(events.AgentTold, &events.Told{Step: c.Step, Message: m})
	}
}

// heardAgain returns messages of another commit as messages of this commit.
func (t *Turn) heardAgain(messages []events.Message) (all []events.Message) {
	for _, m := range messages {
		all = append(all, events.Message{Text: t.again(m.Text), By: m.By})
	}
	return all
}

// again returns a value of another commit as one of this commit, whose size is limited.
func (t *Turn) again(v events.Value) events.Value {
	if v.Ref() != "" || v.IsZero() {
		return v
	}
	return t.value(v.Raw)
}

// maxReads limits the files that a task knows because of the results that it reuses: they are in its first commit.
const maxReads = 3000

// ReadsOf returns what the reused steps of past have read. A file may be changed only while it has the content that was read, so a new
// task may know what the results that it stands on have read.
func ReadsOf(past *statemachine.Task, reused []events.Reused) (all []events.Read) {
	taken := map[string]bool{}
	for _, r := range reused {
		taken[r.Step] = true
	}
	for _, key := range past.Order {
		top := key
		if inner := strings.IndexAny(key, "[."); inner >= 0 { // a step of an item, or a call of an agent
			top = key[:inner]
		}
		for _, r := range past.Steps[key].Reads {
			if taken[top] && len(all) < maxReads {
				all = append(all, events.Read{Path: r.Path, SHA256: r.SHA256, Step: top})
			}
		}
	}
	return all
}

// ContinueAgents returns the agent steps among those that a retry repeats that can go on where they stood. An agent that needs more
// than reused results begins anew.
func (t *Reading) ContinueAgents(repeated map[string]bool, reused []events.Reused) (all []*Continued) {
	known := map[string]bool{}
	for _, r := range reused {
		known[r.Step] = true
	}
	inputs := t.Fetch(t.Task.Submitted.Inputs)
	for _, n := range t.Plan.Program.Steps() {
		if !repeated[n.ID] || slices.ContainsFunc(n.Needs, func(need string) bool { return !known[need] }) {
			continue
		}
		if c := t.Continue(t.Task, n.ID, inputs, 0); c != nil {
			all = append(all, c.withBudget(t.Task))
		}
	}
	return all
}

// turnsIn counts the turns that agents take over.
func turnsIn(all []*Continued) (turns int) {
	for _, c := range all {
		turns += c.Turns
	}
	return turns
}
