package orchestrator

import (
	"context"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// turn is one decision about one task: the events it emits are applied at once and appended as one
// commit.
type turn struct {
	o      *Orchestrator
	e      *entry
	task   *statemachine.Task
	now    time.Time
	actor  string
	events []events.Event
	// err is the first event that the tables refused; the turn is then void.
	err error
}

// emit applies an event and adds it to the commit.
func (t *turn) emit(kind events.Kind, data events.Payload) {
	if t.err != nil {
		return
	}
	e := events.Event{Kind: kind, Data: data}
	if t.err = t.task.Apply(t.now, e); t.err == nil {
		t.events = append(t.events, e)
	}
}

// activate brings the task to IN_PROGRESS from wherever work may begin or go on.
func (t *turn) activate() {
	switch t.task.State {
	case statemachine.NeedsAction, statemachine.Assigned, statemachine.Planning:
		t.emit(events.TaskStarted, &events.Moved{})
	case statemachine.Blocked:
		t.emit(events.TaskUnblocked, &events.Moved{})
	}
}

// change decides about a task and returns when the decision is durable.
func (o *Orchestrator) change(ctx context.Context, id events.TaskID, actor string, decide func(*turn) error) error {
	if err := o.serving(); err != nil {
		return err
	}
	done := make(chan error, 1)
	o.lock()
	o.turn(id, actor, decide, func(err error) { done <- err })
	o.unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fault.From(ctx.Err())
	case <-o.stopped:
		return fault.New(fault.Unavailable, "the node is stopping")
	}
}

// turn queues a decision about a task; done hears how it ended, with the lock held. The lock is held.
func (o *Orchestrator) turn(id events.TaskID, actor string, decide func(*turn) error, done func(error)) {
	o.enter(id, func(e *entry, err error) {
		if err != nil {
			done(err)
			return
		}
		o.decide(e, actor, decide, done)
	})
}

// wake lets a task go on by itself, such as after a timer. The lock is held.
func (o *Orchestrator) wake(id events.TaskID) {
	o.turn(id, actorNode, func(*turn) error { return nil }, func(err error) {
		if err != nil && !fault.Has(err, fault.NotFound) {
			o.alarms.set(o.now().Add(time.Second), id)
		}
	})
}

const actorNode = "node"

// decide runs one decision and appends what it says. The lock is held and the entry is not busy.
func (o *Orchestrator) decide(e *entry, actor string, decide func(*turn) error, done func(error)) {
	t := &turn{o: o, e: e, task: e.task, now: o.now(), actor: actor}
	err := decide(t)
	if err == nil {
		t.advance()
		err = t.err
	}
	if len(t.events) == 0 {
		done(err)
		return
	}
	if err != nil {
		o.discard(e, err, done)
		return
	}
	o.append(t, done)
}

// append writes the turn as one commit. The lock is held.
func (o *Orchestrator) append(t *turn, done func(error)) {
	e := t.e
	if t.now.Before(e.task.UpdatedAt) {
		t.now = e.task.UpdatedAt // the clock went back; a history never does
	}
	c := &events.Commit{Task: e.id, Rev: e.task.Rev + 1, At: t.now, Actor: t.actor, Prev: e.task.Head, Events: t.events}
	data, err := events.Encode(c)
	if err != nil {
		o.discard(e, err, done)
		return
	}
	e.task.Seal(t.now, data)
	e.busy = true
	record := events.Record{Head: headOf(e.task), After: e.seq, Data: data}
	o.outbox = append(o.outbox, func() {
		o.cfg.Log.Append(record, func(seq uint64, err error) {
			o.lock()
			o.appended(t, seq, err, done)
			o.unlockAnswer()
		})
	})
}

func headOf(t *statemachine.Task) events.Head {
	h := events.Head{Task: t.ID, Rev: t.Rev, State: string(t.State), Name: t.Submitted.Name, At: t.UpdatedAt}
	if t.Submitted.Parent != nil {
		h.Parent = t.Submitted.Parent.Task
	}
	return h
}

// appended follows a commit up once the log has answered. The lock is held.
func (o *Orchestrator) appended(t *turn, seq uint64, err error, done func(error)) {
	if err != nil {
		o.discard(t.e, err, done)
		return
	}
	t.e.seq = seq
	o.follow(t)
	t.e.notify()
	done(nil)
	o.release(t.e)
}

// discard forgets what a failed turn has done to the task in memory and reads it from the log again.
// The lock is held.
func (o *Orchestrator) discard(e *entry, err error, done func(error)) {
	if fault.Has(err, fault.Internal) || fault.Has(err, fault.DataLoss) {
		o.cfg.Logger.Error("append_failed", "task", e.id, "error", err)
	}
	o.forget(e)
	done(err)
	e.task, e.prog = nil, nil
	o.load(e)
}

// forget removes what is derived from a task. The lock is held.
func (o *Orchestrator) forget(e *entry) {
	if e.task == nil || e.task.Submitted == nil {
		return
	}
	if c := e.task.Submitted.Concurrency; c != nil {
		delete(o.slot(c.Key).holders, e.id)
	}
}

// follow draws the consequences of a durable commit. The lock is held.
func (o *Orchestrator) follow(t *turn) {
	e := t.e
	o.listed.update(e)
	for _, event := range t.events {
		switch d := event.Data.(type) {
		case *events.Submitted:
			o.last = e.id
			o.awaitDependencies(e)
			o.setAlarms(e)
		case *events.Ready:
			o.match.push(e, e.task.Steps[d.Step])
		case *events.Waiting:
			o.alarms.setMaybe(d.Until, e.id)
		case *events.Retrying:
			o.drop(e, d.Step)
			o.alarms.set(d.At, e.id)
		case *events.Called:
			o.called(e, d)
		case *events.Spawned:
			o.spawn(e, d)
		case *events.Succeeded:
			o.drop(e, d.Step)
		case *events.StepError:
			o.drop(e, d.Step)
		case *events.InDoubt:
			o.drop(e, d.Step)
		case *events.Skipped:
			o.revoke(e, d.Step)
		case *events.Checkpointed:
			o.saveCheckpoint(e, d)
		case *events.Moved:
			if e.task.State.Terminal() {
				o.over(e)
			}
		}
	}
	o.dispatch()
}

// over draws the consequences of the end of a task. The lock is held.
func (o *Orchestrator) over(e *entry) {
	for step := range e.leases {
		o.revoke(e, step)
	}
	for _, s := range e.task.Steps {
		if s.Child != "" && !s.State.Over() {
			o.cancelLater(s.Child, "the parent task ended")
		}
	}
	if c := e.task.Submitted.Concurrency; c != nil {
		o.free(c.Key, e.id)
	}
	o.metDependency(e)
	o.tellParent(e)
	o.listed.finished(e)
	o.cfg.Over(e.id)
}
