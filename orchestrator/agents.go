package orchestrator

import (
	"cmp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
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
	l := lane{queue: decide.QueueName(s.Queue), tool: s.Tool, suspect: decide.Suspect(s), agents: selection(s.For), requester: askedFor(t), share: shareOf(t)}
	l.operator = !t.Submitted.Limited && !strings.HasPrefix(l.requester, events.AgentPrefix)
	if s.For != nil {
		l.queue = work.AgentsQueue
	}
	return l
}

// shareOf is the identity in whose share a task counts.
func shareOf(t *statemachine.Task) string { return cmp.Or(t.Submitted.Share, askedFor(t)) }

// askedFor is who submitted a task, or the first of its parents.
func askedFor(t *statemachine.Task) string {
	if parent := t.Submitted.Parent; parent != nil {
		return parent.Requester
	}
	return t.Requestor
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

// fits reports whether an agent is among those that are selected.
func fits(p *work.Agent, a *events.Agents, requester string) bool {
	if !p.WorksFor(requester) || a.Agent != "" && a.Agent != p.Name || a.Type != "" && a.Type != p.Type {
		return false
	}
	return !slices.ContainsFunc(a.Requires, func(c string) bool { return !slices.Contains(p.Capabilities, c) })
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
