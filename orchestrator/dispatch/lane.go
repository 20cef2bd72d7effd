package dispatch

import (
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/work"
)

// Lane identifies a set of equivalent calls: calls of one tool, in one named queue, for one identity. A worker may take either
// all calls of a lane or none, so only the first call of each lane is checked. Suspects, and calls for agents, have separate
// lanes.
type Lane struct {
	Queue, Tool string
	// Suspect is set for calls that have lost workers. No worker gets two suspects at the same time.
	Suspect bool
	// Agents is the Selection of agents that the calls are for; "" for workers.
	Agents string
	// Requester is the identity that the calls act for. Share is the identity that they count for (see shares).
	Requester, Share string
	// Provider is the provider of models that the calls ask first; "" for calls that ask none.
	Provider string
	// Key is the limit key of the tasks (events.Submitted); "" if no limit of the calls asks for it (see Dispatcher.WithKey).
	Key string
	// Operator is set for an identity that may use the reserved slots.
	Operator bool
	// Root is the root of the tasks; "" if any worker may execute their calls.
	Root string
}

// withoutKey returns the lane of its family.
func (l Lane) withoutKey() Lane {
	l.Key = ""
	return l
}

// selectionSeparator separates the parts of a selection in a lane.
const selectionSeparator = "\x1f"

// Selection returns the key of a selection of agents in a Lane; "" stands for workers.
func Selection(a *events.Agents) string {
	if a == nil {
		return ""
	}
	return strings.Join(append([]string{a.Agent, a.Type}, a.Requires...), selectionSeparator)
}

// matches reports whether the calls of the lane are for the sender of a poll: the agent p, or a worker if p is nil. It runs for
// every lane and every dispatched call, so it does not allocate.
func (l *Lane) matches(p *work.Agent) bool {
	if l.Agents == "" || p == nil {
		return l.Agents == "" && p == nil
	}
	if !p.WorksFor(l.Requester) {
		return false
	}
	name, rest, _ := strings.Cut(l.Agents, selectionSeparator)
	kind, requires, more := strings.Cut(rest, selectionSeparator)
	if name != "" && name != p.Name || kind != "" && kind != p.Type {
		return false
	}
	for more {
		var capability string
		if capability, requires, more = strings.Cut(requires, selectionSeparator); !slices.Contains(p.Capabilities, capability) {
			return false
		}
	}
	return true
}

// Matches reports whether a selection includes an agent, and the agent works for the requester.
func Matches(p *work.Agent, a *events.Agents, requester string) bool {
	if !p.WorksFor(requester) || a.Agent != "" && a.Agent != p.Name || a.Type != "" && a.Type != p.Type {
		return false
	}
	return !slices.ContainsFunc(a.Requires, func(c string) bool { return !slices.Contains(p.Capabilities, c) })
}
