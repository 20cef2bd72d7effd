package orchestrator

import (
	"context"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// This file holds what binds tasks to each other: dependencies, children and concurrency keys.

// awaitDependencies asks about every dependency that is not met. The lock is held.
func (o *Orchestrator) awaitDependencies(e *entry) {
	for _, dep := range e.task.Unmet {
		if o.waits[dep] == nil {
			o.waits[dep] = map[events.TaskID]bool{}
		}
		o.waits[dep][e.id] = true
		o.enter(dep, func(d *entry, err error) {
			switch {
			case err != nil:
				o.dependencyEnded(e.id, dep, statemachine.Failed)
			case d.task.State.Terminal():
				o.dependencyEnded(e.id, dep, d.task.State)
			}
		})
	}
}

// metDependency tells the tasks that wait for a task that it is over. The lock is held.
func (o *Orchestrator) metDependency(e *entry) {
	for id := range o.waits[e.id] {
		o.dependencyEnded(id, e.id, e.task.State)
	}
	delete(o.waits, e.id)
}

func (o *Orchestrator) dependencyEnded(id, dep events.TaskID, state statemachine.State) {
	o.turn(id, "task:"+string(dep), func(t *turn) error {
		if t.task.State.Terminal() || len(t.task.Unmet) == 0 {
			return nil
		}
		if state != statemachine.Done {
			t.end(fault.New(fault.StateNotAllowed, "the task depends on %s, which ended %s", dep, state))
			return nil
		}
		t.emit(events.DependencyMet, &events.Met{Task: dep, State: string(state)})
		if len(t.task.Unmet) == 0 && t.task.State == statemachine.Blocked {
			t.emit(events.TaskRequeued, &events.Moved{Reason: "its dependencies are done"})
		}
		return nil
	}, ignore)
}

// spawn submits the child task of a step, after the step itself is durable. The lock is held.
func (o *Orchestrator) spawn(e *entry, d *events.Spawned) {
	n := (&turn{o: o, e: e, task: e.task}).nodeByKey(d.Step)
	if n == nil || n.Sub == nil {
		return
	}
	parent := &events.Parent{Task: e.id, Step: d.Step, Depth: 1}
	if p := e.task.Submitted.Parent; p != nil {
		parent.Depth = p.Depth + 1
	}
	sub := SubmitRequest{
		ID: d.Child, Plan: n.Sub.Plan().JSON(), Priority: e.task.Submitted.Priority,
		Queue: e.task.Submitted.Queue, Actor: "task:" + string(e.id),
	}
	o.outbox = append(o.outbox, func() { go o.spawnNow(sub, parent, d.Inputs) })
}

func (o *Orchestrator) spawnNow(r SubmitRequest, parent *events.Parent, inputs events.Value) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var err error
	if r.Inputs, err = o.fetch(ctx, inputs); err == nil {
		_, err = o.submit(ctx, r, submitExtra{parent: parent})
	}
	if err == nil {
		return
	}
	o.cfg.Logger.Error("child_not_started", "task", parent.Task, "step", parent.Step, "error", err)
	if fault.Has(err, fault.Unavailable) || fault.Has(err, fault.DiskFull) {
		o.lock()
		o.alarms.set(o.now().Add(time.Second), parent.Task)
		o.unlock()
		return
	}
	o.childEnded(parent, r.ID, func(t *turn) {
		t.emit(events.StepFailed, &events.StepError{Step: parent.Step, Error: fault.From(err), Class: classChild})
	})
}

// followChild makes sure that the child of a running step exists and that its end is heard. The lock
// is held.
func (o *Orchestrator) followChild(parent, child events.TaskID) {
	o.enter(child, func(c *entry, err error) {
		switch {
		case fault.Has(err, fault.NotFound):
			o.respawn(parent, child)
		case err == nil && c.task.State.Terminal():
			o.tellParent(c)
		}
	})
}

// respawn submits a child again whose submission was lost in a crash. The lock is held.
func (o *Orchestrator) respawn(parent, child events.TaskID) {
	o.enter(parent, func(e *entry, err error) {
		if err != nil {
			return
		}
		for key, s := range e.task.Steps {
			if s.Child == child && s.State == statemachine.StepRunning {
				o.spawn(e, &events.Spawned{Step: key, Child: child, Inputs: s.Args})
			}
		}
	})
}

// tellParent reports the end of a child to the step that started it. The lock is held.
func (o *Orchestrator) tellParent(e *entry) {
	parent := e.task.Submitted.Parent
	if parent == nil {
		return
	}
	child, state, output, failure := e.id, e.task.State, e.task.Output, e.task.Error
	o.childEndedLocked(parent, child, func(t *turn) {
		if state == statemachine.Done {
			t.emit(events.StepSucceeded, &events.Succeeded{Step: parent.Step, Output: output})
			return
		}
		why := fault.New(fault.Cancelled, "the child task %s was cancelled", child)
		if failure != nil {
			why = fault.New(failure.Code, "child task %s: %s", child, failure.Message)
		}
		t.emit(events.StepFailed, &events.StepError{Step: parent.Step, Error: why, Class: classChild})
	})
}

func (o *Orchestrator) childEnded(parent *events.Parent, child events.TaskID, say func(*turn)) {
	o.lock()
	defer o.unlock()
	o.childEndedLocked(parent, child, say)
}

func (o *Orchestrator) childEndedLocked(parent *events.Parent, child events.TaskID, say func(*turn)) {
	o.turn(parent.Task, "task:"+string(child), func(t *turn) error {
		if s := t.task.Steps[parent.Step]; s != nil && s.Child == child && s.State == statemachine.StepRunning {
			say(t)
		}
		return nil
	}, ignore)
}

// cancelLater cancels another task without waiting for it. The lock is held.
func (o *Orchestrator) cancelLater(id events.TaskID, reason string) {
	o.turn(id, actorNode, func(t *turn) error {
		if t.task.State.Terminal() {
			return nil
		}
		t.cancel(reason)
		return nil
	}, ignore)
}

// slot is the state of one concurrency key.
type slot struct {
	holders map[events.TaskID]bool
	waiting map[events.TaskID]bool
}

func (o *Orchestrator) slot(key string) *slot {
	s := o.keys[key]
	if s == nil {
		s = &slot{holders: map[events.TaskID]bool{}, waiting: map[events.TaskID]bool{}}
		o.keys[key] = s
	}
	return s
}

// acquire reports whether a task holds its concurrency key, taking it if there is room.
func (o *Orchestrator) acquire(e *entry) bool {
	c := e.task.Submitted.Concurrency
	if c == nil {
		return true
	}
	s := o.slot(c.Key)
	if s.holders[e.id] {
		return true
	}
	if len(s.holders) >= c.Limit {
		s.waiting[e.id] = true
		return false
	}
	delete(s.waiting, e.id)
	s.holders[e.id] = true
	return true
}

// free gives a concurrency key back and wakes who comes next by priority and age. The lock is held.
func (o *Orchestrator) free(key string, id events.TaskID) {
	s := o.slot(key)
	delete(s.holders, id)
	delete(s.waiting, id)
	if next := o.nextInLine(s); next != "" {
		delete(s.waiting, next)
		o.wake(next)
	}
	if len(s.holders) == 0 && len(s.waiting) == 0 {
		delete(o.keys, key)
	}
}

func (o *Orchestrator) nextInLine(s *slot) events.TaskID {
	var best *entry
	for id := range s.waiting {
		e := o.tasks[id]
		if e == nil || e.task == nil {
			return id // being loaded: let it ask again
		}
		if best == nil || before(e, best) {
			best = e
		}
	}
	if best == nil {
		return ""
	}
	return best.id
}

func before(a, b *entry) bool {
	pa, pb := priorityOf(a.task.Submitted.Priority), priorityOf(b.task.Submitted.Priority)
	if pa != pb {
		return pa < pb
	}
	if c := a.task.CreatedAt.Compare(b.task.CreatedAt); c != 0 {
		return c < 0
	}
	return a.id < b.id
}
