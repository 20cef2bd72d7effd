package orchestrator

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// This file is about calls that registered agents take: they wait in lanes of their own, one for each selection of
// agents, and no worker is offered them.

// lane is what a worker serves: the calls of one tool in one queue for one identity, suspects apart, and those for agents apart.
type lane struct {
	queue, tool string
	suspect     bool
	// agents is the selection of agents that the calls are for; "" for workers. requester is whose calls they are, and share the
	// identity in whose share they count.
	agents, requester, share string
	// operator is set when they are those of somebody for whom slots are reserved.
	operator bool
}

// laneOf is the lane of the ready call of a step.
func laneOf(t *statemachine.Task, s *statemachine.Step) lane {
	l := lane{queue: queueName(s.Queue), tool: s.Tool, suspect: suspect(s), agents: selection(s.For), requester: askedFor(t), share: shareOf(t)}
	l.operator = !t.Submitted.Limited && !strings.HasPrefix(l.requester, events.AgentPrefix)
	if s.For != nil {
		l.queue = work.AgentsQueue
	}
	return l
}

// shareOf is the identity in whose share a task counts.
func shareOf(t *statemachine.Task) string { return first(t.Submitted.Share, askedFor(t)) }

// askedFor is who submitted a task, or the first of its parents.
func askedFor(t *statemachine.Task) string {
	if parent := t.Submitted.Parent; parent != nil {
		return parent.Requester
	}
	return t.Requestor
}

// agentsFor returns which agents may take a call; nil for one that workers execute. What an earlier attempt was handed
// to stays.
func (t *reading) agentsFor(step, tool string, args events.Value) *events.Agents {
	known, ok := t.rules.catalogue.Get(tool)
	if !ok || !known.Spec().ForAgents {
		return nil
	}
	if s := t.task.Steps[step]; s != nil && s.For != nil {
		return s.For
	}
	given := t.fetch(args)
	var said events.Agents
	if _, err := known.Check(given); err != nil || json.Unmarshal(given, &said) != nil {
		return &events.Agents{} // its arguments are refused by whoever is to make the call
	}
	slices.Sort(said.Requires)
	said.Requires = slices.Compact(said.Requires)
	return &said
}

// between separates the parts of a selection in a lane.
const between = "\x1f"

// selection is what a lane knows of the agents that its calls are for; "" stands for workers.
func selection(a *events.Agents) string {
	if a == nil {
		return ""
	}
	return strings.Join(append([]string{a.Agent, a.Type}, a.Requires...), between)
}

// takes reports whether a poll is from somebody whom the calls of the lane are for. It is asked for every lane and every
// call that is handed out, so it makes nothing.
func (l lane) takes(p *work.Agent) bool {
	if l.agents == "" || p == nil {
		return l.agents == "" && p == nil
	}
	if !p.WorksFor(l.requester) {
		return false
	}
	name, rest, _ := strings.Cut(l.agents, between)
	kind, requires, some := strings.Cut(rest, between)
	if name != "" && name != p.Name || kind != "" && kind != p.Type {
		return false
	}
	for some {
		var one string
		if one, requires, some = strings.Cut(requires, between); !slices.Contains(p.Capabilities, one) {
			return false
		}
	}
	return true
}

// assign brings a task that nobody works on to ASSIGNED: an agent is given its first call (table T-1).
func (t *turn) assign(agent string) {
	if t.task.State == statemachine.NeedsAction {
		t.emit(events.TaskAssigned, &events.Moved{Reason: "given to " + agent})
	}
}

// takeUp brings a task to IN_PROGRESS whose agent has said that it has the call, or how that ended.
func (t *turn) takeUp() {
	if t.task.State == statemachine.Assigned {
		t.activate()
	}
}

// release brings a task back whose agent has given its call back, or was lost, before it began.
func (t *turn) release() {
	if t.stopped() || t.task.State != statemachine.Assigned {
		return
	}
	for _, s := range t.task.Steps {
		if s.Executing() || s.State == statemachine.StepInDoubt {
			return
		}
	}
	t.emit(events.TaskReleased, &events.Moved{Reason: "no agent has its call"})
}

// fits reports whether an agent is among those that are selected.
func fits(p *work.Agent, a *events.Agents, requester string) bool {
	if !p.WorksFor(requester) || a.Agent != "" && a.Agent != p.Name || a.Type != "" && a.Type != p.Type {
		return false
	}
	return !slices.ContainsFunc(a.Requires, func(c string) bool { return !slices.Contains(p.Capabilities, c) })
}

// HandOn is a call that the agent which has it leaves to others.
type HandOn struct {
	// Tool is its tool, Requester who it was made for, "" when that is not known, and By the agent, such as agent:ada.
	Tool, Requester, By string
	// From are the agents that it is for, To those that it shall be for.
	From, To events.Agents
}

// mayHandOn returns why an agent must not leave the call that it has to those whom it names. The call stays with it then.
func (t *reading) mayHandOn(r work.Outcome) error {
	s := t.task.Steps[r.Step]
	if r.HandTo == nil || nobody(r.HandTo) || s == nil || !t.holds(r.Ref, r.Worker) {
		return nil
	}
	if s.For == nil {
		return fault.New(fault.ValidationError, "the call is for no agents").WithField("hand_to").WithHint("give it back")
	}
	return t.rules.handOn(HandOn{Tool: s.Tool, Requester: first(s.By, t.facts.requester()), By: r.Worker, From: *s.For, To: *r.HandTo})
}

// nobody reports whether a selection names nobody in particular.
func nobody(a *events.Agents) bool { return a.Agent == "" && a.Type == "" && len(a.Requires) == 0 }

// maxHandOffs bounds how often a call goes from agent to agent: two that hand it to each other would go on for ever.
const maxHandOffs = 100

// handOff gives the call of an agent to others, for an empty selection to those that it was for. It says itself how far
// it came, so the call is in no doubt.
func (t *turn) handOff(s *statemachine.Step, r work.Outcome) {
	if s.Attempt >= maxHandOffs {
		t.failed(s, fault.New(fault.ToolFailed, "%d agents have handed the call on; the last one: %s", s.Attempt, r.Error.Message), r.Class, r.Duration)
		return
	}
	if nobody(r.HandTo) {
		r.HandTo = nil
	}
	at := t.now
	if r.Error.RetryAt.After(at) {
		at = events.Time(r.Error.RetryAt)
	}
	t.emit(events.StepRetrying, &events.Retrying{
		Step: s.Key, Attempt: s.Attempt, Error: r.Error, Class: fault.ClassHandoff, Duration: r.Duration, At: at, For: r.HandTo, Handed: t.keep(r.Handed),
	})
}

// wanted names the agents that a call waits for, for people.
func wantedAgents(a *events.Agents) string {
	text := "an agent"
	if a.Agent != "" {
		text = "the agent " + a.Agent
	}
	if a.Type != "" {
		text += " of the type " + a.Type
	}
	if len(a.Requires) > 0 {
		text += " capable of " + strings.Join(a.Requires, ", ")
	}
	return text
}

// online reports whether an agent that may take a call was heard of lately. The lock is held.
func (o *Orchestrator) online(a *events.Agents, requester string) bool {
	return o.anyAgent(func(p *work.Agent) bool { return fits(p, a, requester) })
}

// bound reports whether agents that could take a call were heard of lately, and none that may. The lock is held.
func (o *Orchestrator) bound(a *events.Agents, requester string) bool {
	return !o.online(a, requester) && o.anyAgent(func(p *work.Agent) bool { return fits(p, a, p.For) })
}

func (o *Orchestrator) anyAgent(is func(*work.Agent) bool) bool {
	for _, w := range o.match.workers {
		if w.agent != nil && is(w.agent) && !o.mute(w) {
			return true
		}
	}
	return false
}
