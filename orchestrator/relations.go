package orchestrator

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/traces"
)

// checkDependencies checks every unmet dependency. mu must be held.
func (en *engine) checkDependencies(e *entry) {
	for _, dep := range slices.Clone(e.task.Unmet) {
		if en.links.waits[dep] == nil {
			en.links.waits[dep] = map[events.TaskID]bool{}
		}
		en.links.waits[dep][e.id] = true
		en.withEntry(dep, func(d *entry, err error) { en.checkDependency(e, dep, d, err) })
	}
}

// circular reports whether a new task would wait for itself through other tasks. A client can cause that: it chooses an id, and
// another task waits for that id already. mu must be held.
func (en *engine) circular(s *submission) bool {
	if slices.Contains(s.payload.DependsOn, s.id) {
		return true
	}
	if len(en.links.waits[s.id]) == 0 && en.links.named[s.id] == 0 {
		return false
	}
	seen := map[events.TaskID]bool{}
	for next := slices.Clone(s.payload.DependsOn); len(next) > 0; {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		if id == s.id {
			return true
		}
		if e := en.tasks[id]; e != nil && e.task != nil && !seen[id] {
			next = append(next, e.task.Unmet...)
		}
		seen[id] = true
	}
	return false
}

// checkDependency applies the state of dependency dep to the task e. d is the entry of dep, or nil with err.
func (en *engine) checkDependency(e *entry, dep events.TaskID, d *entry, err error) {
	switch {
	case absent(err):
		en.links.removeWait(dep, e.id)
		en.dependencyEnded(e.id, dep, fault.New(fault.NotFound, "the task depends on %s, which does not exist", dep))
	case err != nil:
		en.wakeLater(e.id)
	case d.task.State.Terminal():
		en.links.removeWait(dep, e.id)
		en.dependencyEnded(e.id, dep, dependencyError(d))
	}
}

// wakeLater makes a task check its dependencies, its parent and its children again after catchUpAfter. mu must be held.
func (en *engine) wakeLater(id events.TaskID) {
	if e := en.tasks[id]; e != nil {
		e.unsynced = true
	}
	en.timers.set(en.now().Add(catchUpAfter), id)
}

// dependencyError returns why a finished task does not satisfy a dependency, or nil if it does.
func dependencyError(d *entry) *fault.Error {
	if d.task.State == statemachine.Done {
		return nil
	}
	return fault.New(fault.StateNotAllowed, "the task depends on %s, which ended %s", d.id, d.task.State)
}

// notifyDependants notifies the tasks that wait for the task e of its end. mu must be held.
func (en *engine) notifyDependants(e *entry) {
	waiting := en.links.waits[e.id]
	delete(en.links.waits, e.id)
	for _, id := range sortedKeys(waiting) {
		en.dependencyEnded(id, e.id, dependencyError(e))
	}
}

// dependencyEnded records in task id that its dependency dep has ended. With a failure, the task ends as well.
func (en *engine) dependencyEnded(id, dep events.TaskID, failure *fault.Error) {
	en.turn(id, "task:"+string(dep), func(t *decide.Turn) error {
		if t.Task.State.Terminal() || !slices.Contains(t.Task.Unmet, dep) {
			return nil
		}
		if failure != nil {
			t.End(failure)
			return nil //nolint:nilerr // the turn succeeds; failure is the error of the dependency
		}
		t.Emit(events.DependencyMet, &events.Met{Task: dep, State: string(statemachine.Done)})
		if len(t.Task.Unmet) == 0 && t.Task.State == statemachine.Blocked {
			t.Emit(events.TaskRequeued, &events.Moved{Reason: "its dependencies are done"})
		}
		return nil
	}, ignore)
}

// spawn submits the child task of a step, after the step itself is durable. mu must be held.
func (en *engine) spawn(e *entry, d *events.Spawned) {
	if d.Parallel > 0 {
		en.parts().spawnPart(e, d)
		return
	}
	above := e.task.Submitted
	child := &submitExtra{
		parent: &events.Parent{Task: e.id, Step: d.Step, Depth: 1, Agent: d.Agent},
		tools:  above.Tools, within: above.Within, share: above.Share, limited: above.Limited, limitKey: above.LimitKey,
		programs: programsOf(above), root: above.Root,
	}
	child.parent.Requester, child.parent.Since, child.parent.Level = en.requester(e), sinceOf(e), levelOf(above)
	child.parent.Labels, child.parent.Trace, child.parent.TraceState = costs.OriginOf(e.task).Labels, traces.Below(e.id, above), traces.StateBelow(above)
	if above.Parent != nil {
		child.parent.Depth = above.Parent.Depth + 1
	}
	text := d.Plan
	if d.Agent != "" {
		e.bind(d.Step, child)
	} else {
		n := e.nodeOf(d.Step)
		if n == nil || n.Sub == nil {
			return
		}
		text = events.Inline(n.Sub.Plan().JSON())
	}
	sub := api.SubmitRequest{
		ID: d.Child, Priority: above.Priority, Queue: above.Queue, Actor: "task:" + string(e.id), Client: clientOfChild(above.Client),
	}
	en.outbox = append(en.outbox, func() {
		en.background(func(ctx context.Context) { en.spawnNow(ctx, sub, child, text, d.Inputs) }, func() {})
	})
}

func (en *engine) spawnNow(ctx context.Context, r api.SubmitRequest, child *submitExtra, text, inputs events.Value) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var err error
	if r.Plan, err = en.blobs.fetch(ctx, text); err == nil {
		r.Inputs, err = en.blobs.fetch(ctx, inputs)
	}
	if err == nil {
		_, err = en.submitChild(ctx, r, child)
	}
	if err == nil {
		return
	}
	parent := child.parent
	if ctx.Err() != nil || !permanent(err) {
		en.cfg.Logger.WarnContext(ctx, "child_not_started", slog.Any("task", parent.Task), slog.Any("step", parent.Step), slog.Any("error", err))
		en.lock()
		defer en.unlock()
		en.wakeLater(parent.Task)
		return
	}
	en.childEnded(endedChild{id: r.ID, parent: parent}, func(t *decide.Turn) {
		t.Emit(events.StepFailed, &events.StepError{Step: parent.Step, Error: fault.From(err), Class: fault.ClassChild})
	})
}

// permanent reports whether the submission itself caused the error, so that a repetition would fail as well.
func permanent(err error) bool {
	switch fault.CodeOf(err) {
	case fault.InvalidPlan, fault.ValidationError, fault.RequiredField, fault.InvalidFormat, fault.SecretDetected,
		fault.QuotaExceeded, fault.Conflict, fault.Cancelled, fault.NotFound, fault.Gone, fault.DataLoss, fault.NewerStore, fault.Forbidden:
		return true
	default:
		return false
	}
}

// checkParent cancels a child task or a delegated task if its parent no longer waits for it. mu must be held.
func (en *engine) checkParent(e *entry) {
	parent := e.task.Submitted.Parent
	if parent == nil {
		return
	}
	en.withEntry(parent.Task, func(p *entry, err error) {
		switch {
		case err != nil && !absent(err):
			en.wakeLater(e.id)
		case err == nil && parent.Delegated():
			if !delegatedWanted(p, parent) {
				en.cancelLater(e.id, parentStopped)
			}
		case err == nil && !childWanted(p.task, parent, e.id):
			en.cancelLater(e.id, parentEnded)
		}
	})
}

// childWanted reports whether a parent still waits for a child.
func childWanted(p *statemachine.Task, parent *events.Parent, child events.TaskID) bool {
	s := p.Steps[parent.Step]
	return s != nil && s.Child == child && s.State == statemachine.StepRunning
}

// createChild creates a child task if its parent still waits for it. mu must be held.
func (sm *submitter) createChild(s *submission, actor string, extra *submitExtra, done func(api.SubmitReply, error)) {
	sm.engine.withEntry(extra.parent.Task, func(p *entry, err error) {
		switch {
		case err != nil:
			done(api.SubmitReply{}, err)
		case !childWanted(p.task, extra.parent, s.id):
			done(api.SubmitReply{}, fault.New(fault.Cancelled, parentEnded))
		default:
			sm.create(s, actor, extra, done)
		}
	})
}

// followChild checks the child of a running step: it submits a missing child again, and reports the end of a finished child to
// the parent. mu must be held.
func (en *engine) followChild(parent, child events.TaskID) {
	en.withEntry(child, func(c *entry, err error) {
		switch {
		case absent(err):
			en.respawn(parent, child) // if the child was removed, its submission is refused, which fails the step
		case err != nil:
			en.wakeLater(parent)
		case c.task.State.Terminal():
			en.notifyParent(c)
		}
	})
}

// respawn submits a child again after its submission was lost in a crash. mu must be held.
func (en *engine) respawn(parent, child events.TaskID) {
	en.withEntry(parent, func(e *entry, err error) {
		if err != nil {
			return
		}
		for _, s := range e.task.In(statemachine.StepRunning) {
			if s.Child == child {
				spawned := s.Spawned
				if spawned == nil {
					spawned = &events.Spawned{Step: s.Key, Child: child, Inputs: s.Args, Parallel: s.Parallel}
				}
				en.spawn(e, spawned)
			}
		}
	})
}

// notifyParent reports the end of a child to the step that started it. mu must be held.
func (en *engine) notifyParent(e *entry) {
	parent := e.task.Submitted.Parent
	if parent == nil || parent.Delegated() {
		return
	}
	used, known := tree(en.tasks).used(e)
	known = known && (len(e.task.Children) == 0 || closed(en.ready))
	c := endedChild{id: e.id, parent: parent, cost: used.spent.Plus(used.held)}
	switch {
	case !known:
		en.wakeLater(parent.Task)
		return
	case parent.Agent != "":
		en.notifySpawner(e, c)
		return
	case e.task.Part != nil:
		en.parts().partEnded(e, c)
		return
	}
	child, state, output, failure := e.id, e.task.State, e.task.Output, e.task.Error
	en.childEndedLocked(c, func(t *decide.Turn) {
		if state == statemachine.Done {
			t.Emit(events.StepSucceeded, &events.Succeeded{Step: parent.Step, Output: output})
			return
		}
		t.Emit(events.StepFailed, &events.StepError{Step: parent.Step, Error: childFault(child, failure), Class: fault.ClassChild})
	})
}

// endedChild is a child task that has ended or could not be started. cost is what models have cost for it at most.
type endedChild struct {
	id     events.TaskID
	parent *events.Parent
	cost   events.Spent
}

func (en *engine) childEnded(c endedChild, record func(*decide.Turn)) {
	en.lock()
	defer en.unlock()
	en.childEndedLocked(c, record)
}

// childEndedLocked records in the parent task what a child has cost, and calls record with the same turn if the parent still waits for the
// child. mu must be held.
func (en *engine) childEndedLocked(c endedChild, record func(*decide.Turn)) {
	en.turn(c.parent.Task, "task:"+string(c.id), func(t *decide.Turn) error {
		t.Charge(&events.Charged{Step: c.parent.Step, Child: c.id, Cost: c.cost})
		if childWanted(t.Task, c.parent, c.id) {
			record(t)
		}
		return nil
	}, ignore)
}

// cancelLater cancels another task without waiting for it. mu must be held.
func (en *engine) cancelLater(id events.TaskID, reason string) {
	en.turn(id, decide.ActorNode, func(t *decide.Turn) error {
		if t.Task.State.Terminal() {
			return nil
		}
		t.Cancel(reason)
		return nil
	}, ignore)
}
