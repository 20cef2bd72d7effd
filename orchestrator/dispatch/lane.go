package dispatch

import (
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/work"
)

// Lane is what a worker serves: the calls of one tool in one queue for one identity, suspects apart, and those for agents apart.
type Lane struct {
	Queue, Tool string
	// Suspect is set for calls that have lost workers: no worker has two of them at the same time.
	Suspect bool
	// Agents is the selection of agents that the calls are for; "" for workers.
	Agents string
	// Requester is whose calls they are, Share the identity in whose share they count.
	Requester, Share string
	// Operator is set when they are those of somebody for whom slots are reserved.
	Operator bool
}

// selectionSeparator separates the parts of a selection in a lane.
const selectionSeparator = "\x1f"

// Selection is what a lane knows of the agents that its calls are for; "" stands for workers.
func Selection(a *events.Agents) string {
	if a == nil {
		return ""
	}
	return strings.Join(append([]string{a.Agent, a.Type}, a.Requires...), selectionSeparator)
}

// matches reports whether a poll is from somebody whom the calls of the lane are for. It is asked for every lane and every
// call that is handed out, so it makes nothing.
func (l Lane) matches(p *work.Agent) bool {
	if l.Agents == "" || p == nil {
		return l.Agents == "" && p == nil
	}
	if !p.WorksFor(l.Requester) {
		return false
	}
	name, rest, _ := strings.Cut(l.Agents, selectionSeparator)
	kind, requires, some := strings.Cut(rest, selectionSeparator)
	if name != "" && name != p.Name || kind != "" && kind != p.Type {
		return false
	}
	for some {
		var one string
		if one, requires, some = strings.Cut(requires, selectionSeparator); !slices.Contains(p.Capabilities, one) {
			return false
		}
	}
	return true
}

// Matches reports whether an agent is among those that are selected, and works for whoever asks.
func Matches(p *work.Agent, a *events.Agents, requester string) bool {
	if !p.WorksFor(requester) || a.Agent != "" && a.Agent != p.Name || a.Type != "" && a.Type != p.Type {
		return false
	}
	return !slices.ContainsFunc(a.Requires, func(c string) bool { return !slices.Contains(p.Capabilities, c) })
}
