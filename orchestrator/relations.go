package orchestrator

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
)

// This file holds what binds tasks to each other: dependencies, children and concurrency keys.

// awaitDependencies asks about every dependency that is not met. The lock is held.
func (o *Orchestrator) awaitDependencies(e *entry) {
	for _, dep := range slices.Clone(e.task.Unmet) {
		if o.waits[dep] == nil {
			o.waits[dep] = map[events.TaskID]bool{}
		}
		o.waits[dep][e.id] = true
		o.enter(dep, func(d *entry, err error) { o.askedDependency(e, dep, d, err) })
	}
}

// nameDependencies counts a task that is being written among those that will wait for its dependencies. The lock is held.
func (o *Orchestrator) nameDependencies(s *submission, by int) {
	for _, dep := range s.payload.DependsOn {
		if o.named[dep] += by; o.named[dep] == 0 {
			delete(o.named, dep)
		}
	}
}

// circular reports whether a new task would wait for itself, by way of others: somebody has to wait for its id, which was
// chosen, already. The lock is held.
func (o *Orchestrator) circular(s *submission) bool {
	if slices.Contains(s.payload.DependsOn, s.id) {
		return true
	}
	if len(o.waits[s.id]) == 0 && o.named[s.id] == 0 {
		return false
	}
	seen := map[events.TaskID]bool{}
	for next := slices.Clone(s.payload.DependsOn); len(next) > 0; {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		if id == s.id {
			return true
		}
		if e := o.tasks[id]; e != nil && e.task != nil && !seen[id] {
			next = append(next, e.task.Unmet...)
		}
		seen[id] = true
	}
	return false
}

// askedDependency hears how a dependency stands.
func (o *Orchestrator) askedDependency(e *entry, dep events.TaskID, d *entry, err error) {
	switch {
	case absent(err):
		o.unwait(dep, e.id)
		o.dependencyEnded(e.id, dep, fault.New(fault.NotFound, "the task depends on %s, which does not exist", dep))
	case err != nil:
		o.askLater(e.id)
	case d.task.State.Terminal():
		o.unwait(dep, e.id)
		o.dependencyEnded(e.id, dep, unusable(d))
	}
}

// askLater lets a task ask once more about what it depends on outside itself. The lock is held.
func (o *Orchestrator) askLater(id events.TaskID) {
	if e := o.tasks[id]; e != nil {
		e.behind = true
	}
	o.timers.set(o.now().Add(catchUpAfter), id)
}

func (o *Orchestrator) unwait(dep, id events.TaskID) {
	delete(o.waits[dep], id)
	if len(o.waits[dep]) == 0 {
		delete(o.waits, dep)
	}
}

// unusable returns why a finished task does not do as a dependency, nil when it does.
func unusable(d *entry) *fault.Error {
	if d.task.State == statemachine.Done {
		return nil
	}
	return fault.New(fault.StateNotAllowed, "the task depends on %s, which ended %s", d.id, d.task.State)
}

// metDependency tells the tasks that wait for a task that it is over. The lock is held.
func (o *Orchestrator) metDependency(e *entry) {
	waiting := o.waits[e.id]
	delete(o.waits, e.id)
	for _, id := range sortedKeys(waiting) {
		o.dependencyEnded(id, e.id, unusable(e))
	}
}

func (o *Orchestrator) dependencyEnded(id, dep events.TaskID, failure *fault.Error) {
	o.turn(id, "task:"+string(dep), func(t *decide.Turn) error {
		if t.Task.State.Terminal() || !slices.Contains(t.Task.Unmet, dep) {
			return nil
		}
		if failure != nil {
			t.End(failure)
			return nil //nolint:nilerr // the failure is that of the dependency
		}
		t.Emit(events.DependencyMet, &events.Met{Task: dep, State: string(statemachine.Done)})
		if len(t.Task.Unmet) == 0 && t.Task.State == statemachine.Blocked {
			t.Emit(events.TaskRequeued, &events.Moved{Reason: "its dependencies are done"})
		}
		return nil
	}, ignore)
}

// spawn submits the child task of a step, after the step itself is durable. The lock is held.
func (o *Orchestrator) spawn(e *entry, d *events.Spawned) {
	above := e.task.Submitted
	child := submitExtra{
		parent: &events.Parent{Task: e.id, Step: d.Step, Depth: 1, Agent: d.Agent},
		tools:  above.Tools, within: above.Within, share: above.Share, limited: above.Limited,
		programs: programsOf(above),
	}
	child.parent.Requester, child.parent.Since, child.parent.Level = o.requester(e), sinceOf(e), levelOf(above)
	if above.Parent != nil {
		child.parent.Depth = above.Parent.Depth + 1
	}
	text := d.Plan
	if d.Agent != "" {
		e.bind(d.Step, &child)
	} else {
		n := e.nodeOf(d.Step)
		if n == nil || n.Sub == nil {
			return
		}
		text = events.Inline(n.Sub.Plan().JSON())
	}
	sub := api.SubmitRequest{
		ID: d.Child, Priority: above.Priority, Queue: above.Queue, Actor: "task:" + string(e.id), Client: sameReach(above.Client),
	}
	o.outbox = append(o.outbox, func() {
		o.background(func(ctx context.Context) { o.spawnNow(ctx, sub, child, text, d.Inputs) }, func() {})
	})
}

func (o *Orchestrator) spawnNow(ctx context.Context, r api.SubmitRequest, child submitExtra, text, inputs events.Value) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var err error
	if r.Plan, err = o.fetch(ctx, text); err == nil {
		r.Inputs, err = o.fetch(ctx, inputs)
	}
	if err == nil {
		_, err = o.submit(ctx, r, child)
	}
	if err == nil {
		return
	}
	parent := child.parent
	if ctx.Err() != nil || !final(err) {
		o.cfg.Logger.WarnContext(ctx, "child_not_started", slog.Any("task", parent.Task), slog.Any("step", parent.Step), slog.Any("error", err))
		o.lock()
		defer o.unlock()
		o.askLater(parent.Task)
		return
	}
	o.childEnded(parent, r.ID, func(t *decide.Turn) {
		t.Emit(events.StepFailed, &events.StepError{Step: parent.Step, Error: fault.From(err), Class: fault.ClassChild})
	})
}

// final reports whether the same submission would fail again: it, and not the log, is at fault.
func final(err error) bool {
	switch fault.CodeOf(err) {
	case fault.InvalidPlan, fault.ValidationError, fault.RequiredField, fault.InvalidFormat, fault.SecretDetected,
		fault.QuotaExceeded, fault.Conflict, fault.Cancelled, fault.NotFound, fault.Gone, fault.DataLoss, fault.NewerStore, fault.Forbidden:
		return true
	default:
		return false
	}
}

// askParent cancels a child whose parent went on without it unheard. The lock is held.
func (o *Orchestrator) askParent(e *entry) {
	parent := e.task.Submitted.Parent
	if parent == nil {
		return
	}
	o.enter(parent.Task, func(p *entry, err error) {
		switch {
		case err != nil && !absent(err):
			o.askLater(e.id)
		case err == nil && parent.Delegated():
			if !wantsDelegated(p, parent) {
				o.cancelLater(e.id, parentStopped)
			}
		case err == nil && !wants(p.task, parent, e.id):
			o.cancelLater(e.id, parentEnded)
		}
	})
}

// wants reports whether a parent still waits for a child.
func wants(p *statemachine.Task, parent *events.Parent, child events.TaskID) bool {
	s := p.Steps[parent.Step]
	return s != nil && s.Child == child && s.State == statemachine.StepRunning
}

// createChild creates a child task if its parent still waits for it. The lock is held.
func (o *Orchestrator) createChild(s *submission, actor string, extra submitExtra, done func(api.SubmitReply, error)) {
	o.enter(extra.parent.Task, func(p *entry, err error) {
		switch {
		case err != nil:
			done(api.SubmitReply{}, err)
		case !wants(p.task, extra.parent, s.id):
			done(api.SubmitReply{}, fault.New(fault.Cancelled, parentEnded))
		default:
			o.create(s, actor, extra, done)
		}
	})
}

// followChild makes sure that the child of a running step exists and that its end is heard. The lock
// is held.
func (o *Orchestrator) followChild(parent, child events.TaskID) {
	o.enter(child, func(c *entry, err error) {
		switch {
		case absent(err):
			o.respawn(parent, child) // one that was given up to damage is refused, which fails the step
		case err != nil:
			o.askLater(parent)
		case c.task.State.Terminal():
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
		for _, key := range e.task.Order {
			if s := e.task.Steps[key]; s.Child == child && s.State == statemachine.StepRunning {
				spawned := s.Spawned
				if spawned == nil {
					spawned = &events.Spawned{Step: key, Child: child, Inputs: s.Args}
				}
				o.spawn(e, spawned)
			}
		}
	})
}

// tellParent reports the end of a child to the step that started it. The lock is held.
func (o *Orchestrator) tellParent(e *entry) {
	parent := e.task.Submitted.Parent
	if parent == nil || parent.Delegated() {
		return
	}
	if parent.Agent != "" {
		o.tellSpawner(e, parent)
		return
	}
	child, state, output, failure := e.id, e.task.State, e.task.Output, e.task.Error
	o.childEndedLocked(parent, child, func(t *decide.Turn) {
		if state == statemachine.Done {
			t.Emit(events.StepSucceeded, &events.Succeeded{Step: parent.Step, Output: output})
			return
		}
		t.Emit(events.StepFailed, &events.StepError{Step: parent.Step, Error: childFault(child, failure), Class: fault.ClassChild})
	})
}

func (o *Orchestrator) childEnded(parent *events.Parent, child events.TaskID, say func(*decide.Turn)) {
	o.lock()
	defer o.unlock()
	o.childEndedLocked(parent, child, say)
}

func (o *Orchestrator) childEndedLocked(parent *events.Parent, child events.TaskID, say func(*decide.Turn)) {
	o.turn(parent.Task, "task:"+string(child), func(t *decide.Turn) error {
		if wants(t.Task, parent, child) {
			say(t)
		}
		return nil
	}, ignore)
}

// cancelLater cancels another task without waiting for it. The lock is held.
func (o *Orchestrator) cancelLater(id events.TaskID, reason string) {
	o.turn(id, decide.ActorNode, func(t *decide.Turn) error {
		if t.Task.State.Terminal() {
			return nil
		}
		t.Cancel(reason)
		return nil
	}, ignore)
}

// semaphore is the state of one concurrency key.
type semaphore struct {
	holders map[events.TaskID]bool
	waiting map[events.TaskID]bool
}

func (o *Orchestrator) semaphore(key string) *semaphore {
	s := o.keys[key]
	if s == nil {
		s = &semaphore{holders: map[events.TaskID]bool{}, waiting: map[events.TaskID]bool{}}
		o.keys[key] = s
	}
	return s
}

// knowsHolders reports whether every task that may hold a concurrency key is known. While the log is still
// being read, or an open task could not be read, its holder may be among those.
func (o *Orchestrator) knowsHolders() bool { return o.serving() == nil && len(o.unread) == 0 }

// acquire reports whether a task holds its concurrency key, taking it if there is room.
func (o *Orchestrator) acquire(e *entry) bool {
	c := e.task.Submitted.Concurrency
	if c == nil {
		return true
	}
	s := o.semaphore(c.Key)
	e.key = c.Key
	if s.holders[e.id] {
		return true
	}
	if len(s.holders) >= c.Limit || !o.knowsHolders() {
		s.waiting[e.id] = true
		return false
	}
	delete(s.waiting, e.id)
	s.holders[e.id] = true
	return true
}

// reviveKey brings the concurrency key of a loaded task in line with its history: it holds the key if
// it has begun. One that holds it without having begun keeps it: the append of its beginning has failed,
// but may still come into the log until the next one does. The lock is held.
func (o *Orchestrator) reviveKey(e *entry) {
	c := e.task.Submitted.Concurrency
	if c == nil {
		return
	}
	e.key = c.Key
	s := o.semaphore(c.Key)
	if e.begun() {
		s.holders[e.id] = true
	}
	if !s.holders[e.id] {
		o.leaveLine(e)
	}
}

// begun reports whether a step of the task's plan has ever started. The state of the task does not tell: a
// single call that needs an approval moves it as well.
func (e *entry) begun() bool {
	if e.task.State == statemachine.Completed {
		return true
	}
	for _, s := range e.task.Steps {
		if startedStep(s) {
			return true
		}
	}
	return false
}

// startedStep reports whether a step of the plan has started; single calls and what a retry has taken over
// are none.
func startedStep(s *statemachine.Step) bool {
	switch {
	case s.Purpose != "":
		return false
	case s.Tool != "", s.Child != "", s.Approval != "", s.Signal != "", s.Items != nil:
		return true
	case s.State == statemachine.StepSucceeded:
		return s.Reason == "" // a value or a timer; what was reused says so
	default:
		return s.State == statemachine.StepRunning
	}
}

// leaveKey gives the concurrency key of a task back, and wakes who comes next. The lock is held.
func (o *Orchestrator) leaveKey(e *entry) {
	if e.key == "" {
		return
	}
	s := o.semaphore(e.key)
	delete(s.holders, e.id)
	delete(s.waiting, e.id)
	o.offerKey(e.key)
}

// leaveAllKeys takes a task that never came into being out of every line: what its first turn had taken
// may be all that is left of it. A key that it was offered meanwhile goes to the next. The lock is held.
func (o *Orchestrator) leaveAllKeys(id events.TaskID) {
	for _, key := range sortedKeys(o.keys) {
		s := o.keys[key]
		delete(s.holders, id)
		delete(s.waiting, id)
		o.offerKey(key)
	}
}

// leaveLine takes a task that cannot begin now out of the line for its concurrency key. The lock is held.
func (o *Orchestrator) leaveLine(e *entry) {
	s := o.keys[e.key]
	if s == nil {
		return
	}
	delete(s.waiting, e.id)
	if !e.begun() {
		delete(s.holders, e.id)
	}
	o.offerKey(e.key)
}

// offerKey wakes who is next in line for a key that has room, and after that task the next. The lock
// is held.
func (o *Orchestrator) offerKey(key string) {
	s := o.keys[key]
	if s == nil {
		return
	}
	if len(s.holders) == 0 && len(s.waiting) == 0 {
		delete(o.keys, key)
		return
	}
	next := o.nextInLine(s)
	if next == nil || !o.knowsHolders() {
		return
	}
	delete(s.waiting, next.id)
	o.wake(next.id)
}

// offerAllKeys wakes who is next in line for each key. The lock is held.
func (o *Orchestrator) offerAllKeys() {
	for _, key := range sortedKeys(o.keys) {
		o.offerKey(key)
	}
}

// isUnread reports whether a task is to be read again, because it could not be read. The lock is held.
func (o *Orchestrator) isUnread(id events.TaskID) bool {
	_, unread := o.unread[id]
	return unread
}

// wasRead notes that a task was read, or that there is none; after the last unread one keys are to be had
// again. The lock is held.
func (o *Orchestrator) wasRead(id events.TaskID) {
	if !o.isUnread(id) {
		return
	}
	if delete(o.unread, id); len(o.unread) == 0 {
		o.offerAllKeys()
	}
}

// nextInLine returns the waiting task of the highest priority that there is room for, the oldest among
// those. Tasks that are being loaded ask again by themselves.
func (o *Orchestrator) nextInLine(s *semaphore) *entry {
	var best *entry
	for id := range s.waiting {
		e := o.tasks[id]
		room := e != nil && e.task != nil && len(s.holders) < e.task.Submitted.Concurrency.Limit
		if room && (best == nil || before(e, best)) {
			best = e
		}
	}
	return best
}

func before(a, b *entry) bool {
	pa, pb := dispatch.Urgency(a.task.Submitted.Priority), dispatch.Urgency(b.task.Submitted.Priority)
	if pa != pb {
		return pa < pb
	}
	if c := a.task.CreatedAt.Compare(b.task.CreatedAt); c != 0 {
		return c < 0
	}
	return a.id < b.id
}
