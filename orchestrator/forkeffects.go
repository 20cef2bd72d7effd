package orchestrator

import (
	"cmp"
	"context"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// This file finds what the calls of a task, and of the tasks on which it stands, have done. It reads their histories: the state of a
// task knows only the newest attempt of a step, and nothing of the calls behind a reused result.

// Limits of what is read to find the effects behind a fork. The calls of tasks beyond them count as made.
const (
	maxForkTasks   = 100
	maxForkCommits = 200_000
)

// pastCalls collects the calls of a task that were begun, and the children that its steps have started, commit by commit.
type pastCalls struct {
	newest map[string]*pastCall // the newest attempt of each step instance
	begun  []pastCall
	// before are the tasks on which the task stands.
	before []events.TaskID
}

// pastCall is an attempt of a call, or a child task.
type pastCall struct {
	key, tool, effect string
	child             events.TaskID
	// single is set for a call that is not a step of the plan. counted is set when it is among the begun ones.
	single, counted bool
}

// add collects the events of a commit.
func (p *pastCalls) add(c *events.Commit) {
	var begins []string
	for _, e := range c.Events {
		switch d := e.Data.(type) {
		case *events.Submitted:
			p.before = slices.DeleteFunc([]events.TaskID{d.RetryOf, d.ForkOf}, func(id events.TaskID) bool { return id == "" })
		case *events.Ready:
			if p.newest == nil {
				p.newest = map[string]*pastCall{}
			}
			p.newest[d.Step] = &pastCall{key: d.Step, tool: d.Tool, effect: d.Effect, single: !decide.OfPlan(d.Purpose)}
		case *events.Called:
			if call := p.newest[d.Step]; call != nil {
				call.effect = cmp.Or(d.Effect, call.effect)
				begins = append(begins, d.Step)
			}
		case *events.StepError:
			begins = p.withoutRefused(begins, d.Step, d.Class, 0)
		case *events.Retrying:
			begins = p.withoutRefused(begins, d.Step, d.Class, d.Round)
		case *events.Succeeded:
			begins = append(begins, d.Step)
		case *events.InDoubt:
			begins = append(begins, d.Step)
		case *events.Spawned:
			p.begun = append(p.begun, pastCall{key: d.Step, child: d.Child})
		}
	}
	for _, key := range begins {
		p.begin(key)
	}
}

// withoutRefused drops a call that has failed in the commit with which it began. A gate has refused it: the start of a call that
// must happen at most once is durable before the call runs.
func (p *pastCalls) withoutRefused(begins []string, key, class string, round int) []string {
	call := p.newest[key]
	ran := round > 0 || class == fault.ClassUnexpected || class == fault.ClassExpression
	if call == nil || ran || !tools.Effect(call.effect).AtMostOnce() {
		return begins
	}
	return slices.DeleteFunc(begins, func(begun string) bool { return begun == key })
}

// begin records that the newest attempt of a step has begun.
func (p *pastCalls) begin(key string) {
	if call := p.newest[key]; call != nil && !call.single && !call.counted {
		call.counted = true
		p.begun = append(p.begun, *call)
	}
}

// effectFinder finds the effects behind the steps of a plan.
type effectFinder struct {
	*submitter

	program *plan.Program
	seen    map[events.TaskID]bool
	commits int
	// found are the effects by top-level step, in the order in which they were found.
	found map[string][]api.ForkEffect
}

// effectsOf finds the effects of a task and of those on which it stands, by top-level step. Idempotent calls count: a fork may make
// them with other arguments.
func (sm *submitter) effectsOf(ctx context.Context, program *plan.Program, id events.TaskID) (map[string][]api.ForkEffect, error) {
	f := &effectFinder{submitter: sm, program: program, seen: map[events.TaskID]bool{}, found: map[string][]api.ForkEffect{}}
	return f.found, f.task(ctx, id)
}

// task adds the effects of a task with the same plan.
func (f *effectFinder) task(ctx context.Context, id events.TaskID) error {
	if f.seen[id] {
		return nil
	}
	f.seen[id] = true
	calls, err := f.read(ctx, id)
	switch {
	case err != nil:
		return err
	case calls == nil:
		f.unreadable()
		return nil
	}
	for _, call := range calls.begun {
		f.add(call)
	}
	for _, before := range calls.before {
		if err := f.task(ctx, before); err != nil {
			return err
		}
	}
	return nil
}

// read reads the calls of a task. It returns nil for a task that was removed, or is beyond the limits.
func (f *effectFinder) read(ctx context.Context, id events.TaskID) (*pastCalls, error) {
	if len(f.seen) > maxForkTasks {
		return nil, nil //nolint:nilnil // documented
	}
	calls, empty := &pastCalls{}, true
	for stored, err := range f.cfg.Log.Read(ctx, id, 1) {
		if absent(err) {
			return nil, nil //nolint:nilnil // documented
		}
		if err != nil {
			return nil, err
		}
		if f.commits++; f.commits > maxForkCommits {
			return nil, nil //nolint:nilnil // documented
		}
		c, err := events.Decode(stored.Data)
		if err != nil {
			return nil, err
		}
		calls.add(c)
		empty = false
	}
	if empty {
		return nil, nil //nolint:nilnil // documented
	}
	return calls, nil
}

// add adds a call to the effects of its step, unless it is the same call again, or has none. To ask a model is no effect.
func (f *effectFinder) add(call pastCall) {
	if call.tool == models.CallTool {
		return
	}
	top := cmp.Or(decide.ItemOf(call.key), statemachine.AgentOf(call.key))
	e := api.ForkEffect{Step: call.key, Tool: call.tool, Effect: call.effect, Child: call.child}
	if call.child == "" && (tools.Effect(call.effect) == tools.Read || call.effect == "" || f.effectOf(call.tool) == "") {
		return
	}
	if f.program.Node(top) != nil && !slices.Contains(f.found[top], e) {
		f.found[top] = append(f.found[top], e)
	}
}

// unreadable adds the effects that the plan shows, for a task whose history cannot be read.
func (f *effectFinder) unreadable() {
	for _, n := range allNodes(f.program) {
		f.planned(n.ID, n)
	}
}

// planned adds the effects that the plan shows of a node to a step.
func (f *effectFinder) planned(step string, n *plan.Node) {
	if n.Kind == plan.KindTool {
		f.add(pastCall{key: step, tool: n.Tool, effect: cmp.Or(string(n.Effect), f.effectOf(n.Tool))})
	}
	if n.Kind == plan.KindAgent && len(n.Agent.Tools) > 0 {
		f.add(pastCall{key: step, tool: string(plan.KindAgent), effect: string(tools.Write)})
	}
	for _, child := range n.Children {
		f.planned(step, child)
	}
	if n.Sub != nil {
		for _, inner := range allNodes(n.Sub) {
			f.planned(step, inner)
		}
	}
}

// allNodes returns the nodes of all sections of a plan.
func allNodes(p *plan.Program) []*plan.Node { return slices.Concat(p.Steps(), p.Verify(), p.Always()) }
