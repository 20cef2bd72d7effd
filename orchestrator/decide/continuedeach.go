package decide

import (
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// ContinuedEach is a for_each of a task whose agents go on where they stood in the same for_each of another task. It takes over the items,
// the results of their steps, and the agents that have no result.
type ContinuedEach struct {
	items  *events.Expanded
	reused []events.Reused
	reads  []events.Read
	agents []*Continued
}

// Results returns how many results of steps are taken over.
func (c *ContinuedEach) Results() int { return len(c.reused) }

// ContinueEach returns each for_each among the steps that a retry repeats whose agents can go on. A for_each that needs more than reused
// results begins anew, because its items may be others, and so does one in parts, or without agents. agents are those that the task takes
// over anyway.
func (t *Reading) ContinueEach(repeated map[string]bool, reused []events.Reused, agents []*Continued) (all []*ContinuedEach) {
	known := map[string]bool{}
	for _, r := range reused {
		known[r.Step] = true
	}
	left := maxContinued - turnsIn(agents)
	for _, n := range t.Plan.Program.Steps() {
		s := t.Task.Steps[n.ID]
		if !repeated[n.ID] || s == nil || s.Items == nil || !hasAgents(n) || slices.ContainsFunc(n.Needs, func(need string) bool { return !known[need] }) {
			continue
		}
		c := &ContinuedEach{items: &events.Expanded{Step: n.ID, Items: s.Items}}
		for i, value := range s.Items {
			t.continueItem(c, &Item{Node: n, Index: i, value: value}, left-turnsIn(c.agents))
		}
		if len(c.agents)+len(c.reused) > 0 {
			all = append(all, c)
			left -= turnsIn(c.agents)
		}
	}
	return all
}

// hasAgents reports whether steps of the items of a for_each are agents.
func hasAgents(n *plan.Node) bool {
	return slices.ContainsFunc(n.Children, func(child *plan.Node) bool { return child.Kind == plan.KindAgent })
}

// continueItem takes over what an item has: results, and agents with at most some turns, that stand on these results alone.
func (t *Reading) continueItem(c *ContinuedEach, it *Item, turns int) {
	for _, child := range it.Node.Children {
		s := t.Task.Steps[it.Key(child.ID)]
		stands := !slices.ContainsFunc(child.Needs, func(need string) bool { return !c.has(it, need) })
		switch {
		case s == nil || !stands || len(child.Covers) > 0: // a grant belongs to its task
		case s.State == statemachine.StepSucceeded:
			c.reused = append(c.reused, events.Reused{Step: s.Key, From: t.Task.ID, Output: s.Output})
			c.reads = append(c.reads, readsOf(t.Task, s.Key)...)
		case child.Kind == plan.KindAgent && turns > 0:
			if agent := t.continueIn(t.Task, child, s.Key, t.scope(it), turns+1); agent != nil {
				c.agents = append(c.agents, agent.withBudget(t.Task))
				turns -= agent.Turns
			}
		}
	}
}

// has reports whether the result of a step that a step of an item needs is taken over. Steps outside of the for_each are reused.
func (c *ContinuedEach) has(it *Item, need string) bool {
	inside := slices.ContainsFunc(it.Node.Children, func(child *plan.Node) bool { return child.ID == need })
	return !inside || slices.ContainsFunc(c.reused, func(r events.Reused) bool { return r.Step == it.Key(need) })
}

// readsOf returns what a step has read, and the calls of an agent step.
func readsOf(t *statemachine.Task, key string) (all []events.Read) {
	keys := []string{key}
	if agent := t.Steps[key].Agent; agent != nil {
		keys = slices.AppendSeq(keys, agent.Calls(key))
	}
	for _, from := range keys {
		if s := t.Steps[from]; s != nil {
			for _, r := range s.Reads {
				all = append(all, events.Read{Path: r.Path, SHA256: r.SHA256, Step: key})
			}
		}
	}
	return all
}

// GoOnEach starts a for_each that continues one of another task.
func (t *Turn) GoOnEach(c *ContinuedEach) {
	items := events.Expanded{Step: c.items.Step}
	for _, v := range c.items.Items {
		items.Items = append(items.Items, t.again(v))
	}
	t.Emit(events.StepExpanded, &items)
	for _, r := range c.reused {
		r.Output = t.again(r.Output)
		t.Emit(events.StepReused, &r)
	}
	for _, r := range c.reads[:min(len(c.reads), maxReads)] {
		t.Emit(events.FileRead, &r)
	}
	for _, agent := range c.agents {
		t.GoOn(agent)
	}
}
