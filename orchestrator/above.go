package orchestrator

import (
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// The tasks that the calls of an agent start draw from its budget, and so do the tasks below them. What a child has cost is in the history
// of its parent when the child has ended (task.charged). Until then it is counted from the child itself: all open tasks are in memory.

// tree is the tasks in memory, which are the children and the parents of each other.
type tree map[events.TaskID]*entry

// usage is what a task uses of the budgets above it: what was spent, with the most for answers that were lost, and what turns without an
// answer may cost besides.
type usage struct{ spent, held events.Spent }

func (u usage) plus(more usage) usage {
	return usage{spent: u.spent.Plus(more.spent), held: u.held.Plus(more.held)}
}

// sumOf returns what requests to models have cost at most.
func sumOf(all []costs.Cost) (sum events.Spent) {
	for _, c := range all {
		sum = sum.Plus(c.Most())
	}
	return sum
}

// above returns the budgets of the agents above a task; false while it is not known what was spent of them. mu must be held.
func (tr tree) above(e *entry) (all []decide.Ledger, known bool) {
	known = true
	for parent := e.task.Submitted.Parent; parent != nil; {
		p := tr[parent.Task]
		if p == nil {
			break // it was removed
		}
		if p.task == nil {
			return all, false
		}
		key := statemachine.AgentOf(parent.Step)
		if s := p.task.Steps[key]; s != nil && s.Agent != nil && isLimited(s.Agent.Spec.Limit) {
			l, ok := tr.budgetOf(p, s)
			all, known = append(all, l), known && ok
		}
		parent = p.task.Submitted.Parent
	}
	return all, known
}

// isLimited reports whether a budget limits what models cost.
func isLimited(limit events.Spent) bool { return limit.NanoUSD > 0 || limit.Tokens > 0 }

// budgetOf returns the budget of an agent for the tasks below it. mu must be held.
func (tr tree) budgetOf(e *entry, s *statemachine.Step) (decide.Ledger, bool) {
	u, known := tr.usedBelow(e, func(step string) bool { return statemachine.AgentOf(step) == s.Key })
	u.spent = u.spent.Plus(s.Agent.Spent).Plus(s.Agent.Lost)
	if inFlight(e.task, s) {
		u.held = u.held.Plus(s.Agent.Reserved)
	}
	return decide.Ledger{
		Above: true, Name: "the agent of step " + s.Key + " in " + string(e.id), Limit: s.Agent.Spec.Limit, Spent: u.spent, Held: u.held,
		Counts: func([]string) bool { return true },
	}, known
}

// used returns what a task uses of the budgets above it; false if not all of its histories are read yet. mu must be held.
func (tr tree) used(e *entry) (usage, bool) {
	if e.task == nil {
		return usage{}, false
	}
	u, known := tr.usedBelow(e, func(string) bool { return true })
	u.spent = u.spent.Plus(e.paid).Plus(e.task.Charged)
	for _, s := range e.task.In(statemachine.StepRunning) {
		if inFlight(e.task, s) {
			u.held = u.held.Plus(s.Agent.Reserved)
		}
	}
	return u, known
}

// usedBelow returns what the children of a task use whose steps are accepted by counts, if its history does not contain it yet. A child
// that is not in memory has not begun. mu must be held.
func (tr tree) usedBelow(e *entry, counts func(step string) bool) (sum usage, known bool) {
	known = !e.unsynced || e.task.State.Terminal()
	for child, step := range e.task.Children {
		c := tr[child]
		if c == nil || !counts(step) {
			continue
		}
		u, ok := tr.used(c)
		sum, known = sum.plus(u), known && ok
	}
	return sum, known
}
