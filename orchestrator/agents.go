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

// This file is about calls that registered agents take: they wait in lanes of their own, one for each selection of
// agents, and no worker is offered them.

// laneOf is the lane of the ready call of a step.
func laneOf(t *statemachine.Task, s *statemachine.Step) dispatch.Lane {
	l := dispatch.Lane{
		Queue: decide.QueueName(s.Queue), Tool: s.Tool, Suspect: decide.Suspect(s), Agents: dispatch.Selection(s.For), Requester: askedFor(t), Share: shareOf(t),
	}
	l.Operator = !t.Submitted.Limited && !strings.HasPrefix(l.Requester, events.AgentPrefix)
	if s.For != nil {
		l.Queue = work.AgentsQueue
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
