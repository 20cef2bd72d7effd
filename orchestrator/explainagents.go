package orchestrator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
)

// This file explains why a call for agents waits, and which limits will end an open task.

// roster holds the registered agents.
type roster struct {
	agents  []RegisteredAgent
	removed func(name string) bool
}

// becauseAgents fills in c for a ready call that no agent holds.
func (t *explanation) becauseAgents(s *statemachine.Step, c *api.Cause) {
	c.Kind, c.Next = "no_worker", "orch agents"
	var why string
	if t.roster != nil {
		why = t.whyNoAgent(s.For, c)
	} else {
		why = t.whyNoPoll(s.For, c)
	}
	if s.Lost+s.Stopped > 0 {
		why += "; " + decide.Unended(s.Lost, s.Stopped)
	}
	c.Sentence = fmt.Sprintf("Step %s waits for %s%s.", s.Key, decide.WantedAgents(s.For), why)
}

// whyNoPoll returns why no agent holds the call, judged by the polls of agents alone. It serves when the registered agents are
// not known.
func (t *explanation) whyNoPoll(a *events.Agents, c *api.Cause) string {
	switch who := originalRequester(t.Task); {
	case t.rd.engine.queue.dispatcher.OnlineForOthers(a, who):
		return onlyForOthers(who)
	case !t.rd.engine.queue.dispatcher.AgentOnline(a, who):
		return ", and no such agent is online"
	default:
		c.Kind = "queued"
		return " to be free"
	}
}

func onlyForOthers(who string) string {
	return "; those that are online work only for whoever registered them, not for " + who
}

// whyNoAgent returns why no agent holds the call, judged by the registered agents.
func (t *explanation) whyNoAgent(a *events.Agents, c *api.Cause) string {
	who := originalRequester(t.Task)
	able := slices.DeleteFunc(slices.Clone(t.roster.agents), func(r RegisteredAgent) bool { return !dispatch.Matches(&r.Agent, a, r.For) })
	willing := slices.DeleteFunc(slices.Clone(able), func(r RegisteredAgent) bool { return !r.WorksFor(who) })
	online := slices.DeleteFunc(slices.Clone(willing), func(r RegisteredAgent) bool { return !r.Online })
	switch {
	case len(able) == 0:
		return t.roster.unregistered(a)
	case len(willing) == 0:
		return onlyForOthers(who)
	case len(online) == 0:
		return allOffline(willing)
	default:
		c.Kind = "queued"
		return busyOrFree(online)
	}
}

// unregistered returns the end of the sentence for a selection that no registered agent matches.
func (r *roster) unregistered(a *events.Agents) string {
	sameName := func(g RegisteredAgent) bool { return g.Name == a.Agent }
	switch {
	case a.Agent == "":
		return ", and no such agent is registered"
	case slices.ContainsFunc(r.agents, sameName):
		return "; " + a.Agent + " is registered, but not with this type or these capabilities"
	case r.removed(a.Agent):
		return ", which was removed"
	default:
		return ", which was never registered"
	}
}

// maxNamedAgents limits the agents that a sentence names.
const maxNamedAgents = 3

// allOffline returns the end of the sentence: since when the agents are offline.
func allOffline(all []RegisteredAgent) string {
	slices.SortFunc(all, func(a, b RegisteredAgent) int { return b.LastSeen.Compare(a.LastSeen) })
	parts := make([]string, 0, maxNamedAgents)
	for _, r := range all[:min(len(all), maxNamedAgents)] {
		since := "not heard of since the node started"
		if !r.LastSeen.IsZero() {
			since = "since " + decide.Clock(r.LastSeen)
		}
		parts = append(parts, r.Name+" ("+since+")")
	}
	return ", and all are offline: " + strings.Join(parts, ", ") + andMore(len(all))
}

// busyOrFree returns the end of the sentence for online agents: one with a free slot if there is one, or else the calls that
// they hold, and when the first of them is free at the latest.
func busyOrFree(all []RegisteredAgent) string {
	var free time.Time
	parts := make([]string, 0, maxNamedAgents)
	for _, r := range all {
		if len(r.Calls) < r.Slots {
			return " to ask for it; " + r.Name + " is online, with a free slot"
		}
		if len(parts) < maxNamedAgents && len(r.Calls) > 0 {
			parts = append(parts, fmt.Sprintf("%s has %s of %s since %s", r.Name, r.Calls[0].Step, r.Calls[0].Task, decide.Clock(r.Calls[0].Since)))
		}
		for _, call := range r.Calls {
			if !call.Until.IsZero() && (free.IsZero() || call.Until.Before(free)) {
				free = call.Until
			}
		}
	}
	text := " to be free: " + strings.Join(parts, ", ") + andMore(len(all))
	if !free.IsZero() {
		text += "; one is free at " + decide.Clock(free) + " at the latest"
	}
	return text
}

// andMore returns the text for the rest of n agents, beyond the maxNamedAgents that a sentence names.
func andMore(n int) string {
	if n <= maxNamedAgents {
		return ""
	}
	return fmt.Sprintf(" and %d more", n-maxNamedAgents)
}

// limitCauses returns the limits that end the open task: its deadline, and an exhausted budget.
func (t *explanation) limitCauses() []api.Cause {
	var all []api.Cause
	if limit := t.Task.Submitted.MaxSteps; limit > 0 && t.Task.Calls >= limit {
		all = append(all, api.Cause{Kind: "budget", Sentence: fmt.Sprintf("It has made all %d calls that it may make (limits.max_steps).", limit)})
	}
	if at := t.Task.Submitted.Deadline; at != nil && !t.Task.Ending && t.Now.Before(*at) {
		all = append(all, api.Cause{Kind: "deadline", Sentence: fmt.Sprintf("The deadline of the task is %s, in %s.", decide.Clock(*at), at.Sub(t.Now).Round(time.Second))})
	}
	return all
}

// plainName returns the name of a worker, or the name of an agent without its prefix.
func plainName(worker string) string { return strings.TrimPrefix(worker, events.AgentPrefix) }

// named returns the name with the word "agent" or "worker" before it.
func named(worker string) string {
	if decide.IsAgent(worker) {
		return "agent " + plainName(worker)
	}
	return "worker " + worker
}
