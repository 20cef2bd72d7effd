package orchestrator

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// change makes a decision about a task with fn, and returns when the decision is durable.
func (en *engine) change(ctx context.Context, id events.TaskID, actor string, fn func(*decide.Turn) error) error {
	if err := en.serving(); err != nil {
		return err
	}
	t, done := newTicket(), make(chan error, 1)
	begin := func(d *decide.Turn) error {
		if err := t.begin(); err != nil {
			return err
		}
		return fn(d)
	}
	en.lock()
	en.turn(id, actor, begin, func(err error) { done <- err })
	en.unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return t.giveUp(ctx)
	case <-en.stopped:
		return stopping()
	}
}

// awaitTurn waits for the result of a turn.
func (c *core) awaitTurn(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fault.From(ctx.Err())
	case <-c.stopped:
		return stopping()
	}
}

// turn queues a decision about a task: fn makes the decision, and done receives the result once it is durable. mu must be held;
// it is also held when fn and done are called.
func (en *engine) turn(id events.TaskID, actor string, fn func(*decide.Turn) error, done func(error)) {
	en.withEntry(id, func(e *entry, err error) {
		if err != nil {
			done(err)
			return
		}
		en.decide(e, actor, fn, done)
	})
}

// wake makes the decisions about a task that are due now, such as after a timer. It ignores finished tasks. mu must be held.
func (en *engine) wake(id events.TaskID) {
	if id == limitsTimer {
		en.queue.dispatcher.Wake()
		return
	}
	if en.tasks[id] == nil && !en.concurrencyKeys.isUnread(id) && en.asleep[id] == nil {
		return
	}
	en.withEntry(id, func(e *entry, err error) {
		if err != nil {
			return // loadFailed has set the next timer
		}
		if e.imported != nil {
			return
		}
		if e.unsynced && !e.task.State.Terminal() {
			en.catchUp(e)
		}
		if e.busy {
			e.turns = append(e.turns, en.wakeTurn)
			return
		}
		en.wakeTurn(e, nil)
	})
}

// wakeTurn runs the turn of a woken task. It does not call catchUp: wake has done that, and if its result could not be written,
// this turn cannot write it either.
func (en *engine) wakeTurn(e *entry, err error) {
	if err != nil {
		return
	}
	began := en.now()
	en.decide(e, decide.ActorNode, func(*decide.Turn) error { return nil }, func(err error) { en.rearmTimer(e, began, err) })
}

// rearmTimer sets the next timer of a task after a turn of wakeTurn that started at began.
func (en *engine) rearmTimer(e *entry, began time.Time, err error) {
	switch {
	case err != nil:
		en.timers.set(en.now().Add(catchUpAfter), e.id)
	case !e.task.State.Terminal():
		en.queue.setTimer(e, began)
	}
	if e.key != "" {
		en.concurrencyKeys.offerKey(e.key)
	}
}

// decide makes one decision with fn and appends its events. mu must be held, and the entry must not be busy.
func (en *engine) decide(e *entry, actor string, fn func(*decide.Turn) error, done func(error)) {
	if e.imported != nil {
		done(importedFault(e.id))
		return
	}
	en.turnStarted = time.Now()
	t, err := decide.Decide(e.read(), actor, fn)
	if err == nil {
		en.continueTurn(e, t)
	}
	if len(t.Events) == 0 {
		done(err)
		return
	}
	if err != nil {
		en.discard(e, err, done)
		return
	}
	en.append(e, t, done)
}

// append writes the turn as one commit. mu must be held.
func (en *engine) append(e *entry, t *decide.Turn, done func(error)) {
	if en.loss != nil {
		en.discard(e, en.loss, done)
		return
	}
	c := &events.Commit{Task: e.id, Rev: e.task.Rev + 1, At: t.Now, Actor: t.Actor, Cause: t.Cause, Prev: e.task.Head, Events: failpoint.Twice(failpoint.DoubleEnd, e.task.State.Terminal(), t.Events)}
	data, err := events.Encode(c)
	if err != nil {
		en.discard(e, err, done)
		return
	}
	e.task.AdvanceHead(t.Now, data)
	e.busy = true
	e.paid = e.paid.Plus(sumOf(t.Paid))
	en.ledgers.hold(e, t)
	done = failpoint.Early(failpoint.AckEarly, done)
	record := events.Record{Head: headOf(e.task), After: e.seq, Data: data}
	answer := func(seq uint64, err error) {
		en.lock()
		en.appended(e, t, seq, err, done)
		en.unlockAnswer()
	}
	en.outbox = append(en.outbox, func() {
		if len(t.Blobs) == 0 {
			en.cfg.Log.Append(record, answer)
			return
		}
		en.background(func(ctx context.Context) {
			if err := en.blobs.store(ctx, t.Blobs); err != nil {
				answer(0, err)
				return
			}
			en.cfg.Log.Append(record, answer)
		}, func() { en.appended(e, t, 0, stopping(), done) })
	})
}

// store writes the large values of a commit to the blob store.
func (bs *blobStore) store(ctx context.Context, blobs []json.RawMessage) error {
	ctx, stop := context.WithTimeout(ctx, blobTime)
	defer stop()
	for _, raw := range blobs {
		if _, err := bs.cfg.Blobs.Put(ctx, raw); err != nil {
			return err
		}
	}
	failpoint.Pass(failpoint.BlobStored)
	return nil
}

func headOf(t *statemachine.Task) events.Head {
	h := events.Head{Task: t.ID, Rev: t.Rev, State: string(t.State), Name: t.Submitted.Name, At: t.UpdatedAt, Created: t.CreatedAt}
	if t.Submitted.Parent != nil {
		h.Parent = t.Submitted.Parent.Task
	}
	return h
}

// appended handles the answer of the log to a commit: it applies the consequences of the commit, or discards the turn after an
// error. mu must be held.
func (en *engine) appended(e *entry, t *decide.Turn, seq uint64, err error, done func(error)) {
	if err != nil {
		en.discard(e, err, done)
		return
	}
	e.seq = seq
	if en.cfg.Hooks.Committed != nil {
		en.cfg.Hooks.Committed(seq, t.Calls, t.Paid)
	}
	en.ledgers.settle(e)
	en.ledgers.released = en.ledgers.released || len(t.Paid) > 0
	en.followUp(e, t)
	clientModel{en}.share(e)
	e.notify()
	done(nil)
	en.runQueuedTurns(e)
	en.ledgers.wakeFirst()
}

// discard removes the effects of a failed turn from the task in memory, and reads the task from the log again. mu must be held.
func (en *engine) discard(e *entry, err error, done func(error)) {
	if fault.Has(err, fault.Internal) || fault.Has(err, fault.DataLoss) {
		en.cfg.Logger.Error("append_failed", slog.Any("task", e.id), slog.Any("error", err))
	}
	en.queue.dispatcher.RemoveAll(&e.calls)
	done(err)
	if e.seq == 0 && fault.IsOverloaded(err) { // the task is certainly not in the log
		en.abandon(e, noTask(e.id))
		return
	}
	e.task, e.plan, e.unsynced = nil, decide.Plan{}, true
	en.load(e)
}

// followUp applies the consequences of a durable commit. mu must be held.
func (en *engine) followUp(e *entry, t *decide.Turn) {
	en.listed.committed(e, t.Events)
	en.people.committed(e, t.Events)
	en.quota.countSteps(e)
	for _, event := range t.Events {
		switch d := event.Data.(type) {
		case *events.Submitted:
			if d.Parent == nil && !isInternalName(d.Name) {
				en.last.add(e.id, t.Task)
			}
			en.checkDependencies(e)
			en.queue.setTimer(e, t.Now)
			en.links.addDelegated(e)
			en.checkParent(e) // it may have ended meanwhile
		case *events.Ready:
			en.queue.queueStep(e, d)
		case *events.Moved:
			en.queue.taskMoved(e, event.Kind)
		case *events.Approval:
			if !e.task.State.Terminal() { // approvals of finished tasks expire without an event
				en.timers.set(d.ExpiresAt, e.id)
				en.timers.setMaybe(d.RemindAt, e.id)
			}
		case *events.Decision:
			en.openForSession(e, event.Kind, d)
		case *events.Question:
			en.timers.set(d.ExpiresAt, e.id)
		case *events.Parked:
			en.queue.endLease(e, d.Step)
			en.queue.dispatcher.Remove(&e.calls, d.Step)
		case *events.Noted:
			en.queue.endLease(e, d.Step)
			en.queue.dispatcher.Remove(&e.calls, d.Step)
		case *events.Paused:
			en.pauseChanged(e)
		case *events.Waiting:
			en.timers.setMaybe(d.Until, e.id)
		case *events.Retrying:
			en.queue.endLease(e, d.Step)
			en.timers.set(d.At, e.id)
			en.queue.dispatcher.Remove(&e.calls, d.Step)
		case *events.CancelRequested:
			en.cancelDelegated(e.id, "", parentStopped)
			en.queue.queueReady(e) // the cancellation ends a pause of the task
		case *events.Ending:
			en.parts().syncParts(e)
		case *events.Called:
			en.queue.markStarted(e, d)
		case *events.Spawned:
			en.queue.endLease(e, d.Step)
			en.queue.dispatcher.Remove(&e.calls, d.Step)
			en.spawn(e, d)
		case *events.Succeeded:
			en.queue.endLease(e, d.Step)
			en.queue.dispatcher.Remove(&e.calls, d.Step)
		case *events.StepError:
			en.queue.endLease(e, d.Step)
			en.queue.dispatcher.Remove(&e.calls, d.Step)
		case *events.InDoubt:
			en.queue.endLease(e, d.Step)
		case *events.Skipped:
			en.stepSkipped(e, d.Step)
		case *events.Checkpointed:
			en.blobs.saveCheckpoint(e, d)
		}
	}
	en.announce(t)
	if e.open && e.task.State.Terminal() {
		en.taskEnded(e)
	}
	en.queue.dispatcher.Dispatch()
}

// pauseChanged removes the calls of a paused task from the queues, or queues the calls of a resumed task.
func (en *engine) pauseChanged(e *entry) {
	en.parts().syncParts(e)
	if !e.paused() {
		en.queue.queueReady(e)
		return
	}
	en.queue.dispatcher.RemoveAll(&e.calls)
	en.concurrencyKeys.leaveQueue(e)
}

// stepSkipped stops the call, the child and the delegated tasks of a skipped step.
func (en *engine) stepSkipped(e *entry, step string) {
	en.queue.dispatcher.Remove(&e.calls, step)
	en.queue.revoke(e, step)
	en.cancelDelegated(e.id, step, parentEnded)
	if child := e.task.Steps[step].Child; child != "" {
		en.cancelLater(child, parentEnded)
	}
}

// parentEnded is the reason of child tasks that are cancelled because the parent no longer waits for them.
const parentEnded = "the parent task continued without it"

// taskEnded applies the consequences of the end of a task. mu must be held.
func (en *engine) taskEnded(e *entry) {
	e.open, e.unsynced, e.fetched = false, false, nil
	for _, step := range e.calls.Leases.Steps() {
		if e.task.Steps[step].State.Terminal() { // single calls continue; the loss of their workers must be noticed
			en.queue.revoke(e, step)
		}
	}
	for _, key := range e.task.Order {
		if s := e.task.Steps[key]; s.Child != "" && s.State != statemachine.StepSucceeded && s.State != statemachine.StepFailed {
			en.cancelLater(s.Child, parentEnded)
		}
	}
	en.links.removeDelegated(e)
	if e.task.State != statemachine.Done {
		en.cancelDelegated(e.id, "", parentStopped)
	}
	for _, dep := range e.task.Unmet {
		en.links.removeWait(dep, e.id)
	}
	en.timers.clear(e.id)
	en.quota.uncount(e)
	en.concurrencyKeys.releaseKey(e)
	en.notifyDependants(e)
	en.notifyParent(e)
	en.finished.add(e)
	en.cfg.Hooks.Over(e.id)
}
