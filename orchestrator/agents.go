package orchestrator

import (
	"cmp"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// Calls for registered agents wait in separate lanes, one for each selection of agents. They are never offered to workers.

// laneOf returns the lane in which the ready call of a step waits.
func (cq *callQueue) laneOf(t *statemachine.Task, s *statemachine.Step) dispatch.Lane {
	l := dispatch.Lane{
		Queue: decide.QueueName(s.Queue), Tool: s.Tool, Suspect: decide.Suspect(s), Agents: dispatch.Selection(s.For), Requester: originalRequester(t), Share: shareOf(t),
	}
	l.Operator = seesAll(t, l.Requester)
	switch {
	case s.For != nil:
		l.Queue = work.AgentsQueue
	case decide.AsksModel(s):
		l.Queue, l.Provider = work.ModelsQueue, decide.ProviderOf(t, s)
	case l.Queue != work.NodeQueue:
		l.Root = t.Submitted.Root
	}
	return cq.dispatcher.WithKey(l, t.Submitted.LimitKey)
}

// seesAll reports whether who calls for a task sees the tasks of all identities: an operator does, an agent or a submitter does not.
func seesAll(t *statemachine.Task, who string) bool {
	return !t.Submitted.Limited && !strings.HasPrefix(who, events.AgentPrefix)
}

// shareOf returns the identity that owns the share of a task: the tasks of one identity share its part of the workers and
// limits.
func shareOf(t *statemachine.Task) string { return cmp.Or(t.Submitted.Share, originalRequester(t)) }

// originalRequester returns who submitted a task; for a child task, who submitted its topmost parent.
func originalRequester(t *statemachine.Task) string {
	if parent := t.Submitted.Parent; parent != nil {
		return parent.Requester
	}
	return t.Requestor
}
