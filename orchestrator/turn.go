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

// change decides about a task and returns when the decision is durable.
func (o *Orchestrator) change(ctx context.Context, id events.TaskID, actor string, say func(*decide.Turn) error) error {
	if err := o.serving(); err != nil {
		return err
	}
	done := make(chan error, 1)
	o.lock()
	o.turn(id, actor, say, func(err error) { done <- err })
	o.unlock()
	return o.answer(ctx, done)
}

// answer waits for the end of a turn.
func (o *Orchestrator) answer(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fault.From(ctx.Err())
	case <-o.stopped:
		return stopping()
	}
}

// turn queues a decision about a task; done hears how it ended, with the lock held. The lock is held.
func (o *Orchestrator) turn(id events.TaskID, actor string, say func(*decide.Turn) error, done func(error)) {
	o.enter(id, func(e *entry, err error) {
		if err != nil {
			done(err)
			return
		}
		o.decide(e, actor, say, done)
	})
}

// wake lets a task go on by itself, such as after a timer. Finished tasks have nothing to wake for. The
// lock is held.
func (o *Orchestrator) wake(id events.TaskID) {
	if o.tasks[id] == nil && !o.isUnread(id) && o.asleep[id] == nil {
		return
	}
	o.enter(id, func(e *entry, err error) {
		if err != nil {
			return // loadFailed has set the next timer
		}
		if e.behind && !e.task.State.Terminal() {
			o.catchUp(e)
		}
		if e.busy {
			e.turns = append(e.turns, o.move)
			return
		}
		o.move(e, nil)
	})
}

// move takes the turn of a woken task. It does not ask again what the task has just been asked: if that
// could not be written, it cannot be now.
func (o *Orchestrator) move(e *entry, err error) {
	if err != nil {
		return
	}
	began := o.now()
	o.decide(e, decide.ActorNode, func(*decide.Turn) error { return nil }, func(err error) { o.woken(e, began, err) })
}

// woken sets the next timer of a task after a turn of its own that began at a time.
func (o *Orchestrator) woken(e *entry, began time.Time, err error) {
	switch {
	case err != nil:
		o.timers.set(o.now().Add(catchUpAfter), e.id)
	case !e.task.State.Terminal():
		o.setTimer(e, began)
	}
	if e.key != "" {
		o.offerKey(e.key)
	}
}

// decide runs one decision and appends what it says. The lock is held and the entry is not busy.
func (o *Orchestrator) decide(e *entry, actor string, say func(*decide.Turn) error, done func(error)) {
	o.began = time.Now()
	t, err := decide.Decide(e.read(), actor, say)
	if err == nil {
		o.goOn(e, t)
	}
	if len(t.Events) == 0 {
		done(err)
		return
	}
	if err != nil {
		o.discard(e, err, done)
		return
	}
	o.append(e, t, done)
}

// append writes the turn as one commit. The lock is held.
func (o *Orchestrator) append(e *entry, t *decide.Turn, done func(error)) {
	if o.loss != nil {
		o.discard(e, o.loss, done)
		return
	}
	c := &events.Commit{Task: e.id, Rev: e.task.Rev + 1, At: t.Now, Actor: t.Actor, Cause: t.Cause, Prev: e.task.Head, Events: failpoint.Twice(failpoint.DoubleEnd, e.task.State.Terminal(), t.Events)}
	data, err := events.Encode(c)
	if err != nil {
		o.discard(e, err, done)
		return
	}
	e.task.Seal(t.Now, data)
	e.busy = true
	done = failpoint.Early(failpoint.AckEarly, done)
	record := events.Record{Head: headOf(e.task), After: e.seq, Data: data}
	answer := func(seq uint64, err error) {
		o.lock()
		o.appended(e, t, seq, err, done)
		o.unlockAnswer()
	}
	o.outbox = append(o.outbox, func() {
		if len(t.Blobs) == 0 {
			o.cfg.Log.Append(record, answer)
			return
		}
		o.background(func(ctx context.Context) {
			if err := o.store(ctx, t.Blobs); err != nil {
				answer(0, err)
				return
			}
			o.cfg.Log.Append(record, answer)
		}, func() { o.appended(e, t, 0, stopping(), done) })
	})
}

// store puts the large values of a commit where its references point to.
func (o *Orchestrator) store(ctx context.Context, blobs []json.RawMessage) error {
	ctx, stop := context.WithTimeout(ctx, blobTime)
	defer stop()
	for _, raw := range blobs {
		if _, err := o.cfg.Blobs.Put(ctx, raw); err != nil {
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

// appended follows a commit up once the log has answered. The lock is held.
func (o *Orchestrator) appended(e *entry, t *decide.Turn, seq uint64, err error, done func(error)) {
	if err != nil {
		o.discard(e, err, done)
		return
	}
	e.seq = seq
	if o.cfg.Committed != nil {
		o.cfg.Committed(seq, t.Calls)
	}
	o.follow(e, t)
	e.notify()
	done(nil)
	o.release(e)
}

// discard forgets what a failed turn has done to the task in memory and reads it from the log again.
// The lock is held.
func (o *Orchestrator) discard(e *entry, err error, done func(error)) {
	if fault.Has(err, fault.Internal) || fault.Has(err, fault.DataLoss) {
		o.cfg.Logger.Error("append_failed", slog.Any("task", e.id), slog.Any("error", err))
	}
	o.dispatcher.RemoveAll(&e.calls)
	done(err)
	e.task, e.plan, e.behind = nil, decide.Plan{}, true
	o.load(e)
}

// follow draws the consequences of a durable commit. The lock is held.
func (o *Orchestrator) follow(e *entry, t *decide.Turn) {
	o.listed.update(e)
	o.quota.weigh(e)
	for _, event := range t.Events {
		switch d := event.Data.(type) {
		case *events.Submitted:
			if d.Parent == nil && !ownName(d.Name) {
				o.last.made(e.id, t.Task)
			}
			o.awaitDependencies(e)
			o.setTimer(e, t.Now)
			o.noteDelegated(e)
			if d.Parent != nil && d.Parent.Delegated() {
				o.askParent(e) // it may have ended meanwhile
			}
		case *events.Ready:
			o.queueStep(e, d)
		case *events.Moved:
			o.moved(e, event.Kind)
		case *events.Approval:
			if !e.task.State.Terminal() { // who looks at one of a finished task sees by the clock how it stands
				o.timers.set(d.ExpiresAt, e.id)
				o.timers.setMaybe(d.RemindAt, e.id)
			}
		case *events.Decision:
			o.carry(e, event.Kind, d)
		case *events.Question:
			o.timers.set(d.ExpiresAt, e.id)
		case *events.Parked:
			o.drop(e, d.Step)
			o.dispatcher.Remove(&e.calls, d.Step)
		case *events.Noted:
			o.drop(e, d.Step)
			o.dispatcher.Remove(&e.calls, d.Step)
		case *events.Paused:
			o.paused(e)
		case *events.Waiting:
			o.timers.setMaybe(d.Until, e.id)
		case *events.Retrying:
			o.drop(e, d.Step)
			o.timers.set(d.At, e.id)
			o.dispatcher.Remove(&e.calls, d.Step)
		case *events.CancelRequested:
			o.cancelDelegated(e.id, "", parentStopped)
			o.queueReady(e) // what a pause held
		case *events.Called:
			o.called(e, d)
		case *events.Spawned:
			o.drop(e, d.Step)
			o.dispatcher.Remove(&e.calls, d.Step)
			o.spawn(e, d)
		case *events.Succeeded:
			o.drop(e, d.Step)
			o.dispatcher.Remove(&e.calls, d.Step)
		case *events.StepError:
			o.drop(e, d.Step)
			o.dispatcher.Remove(&e.calls, d.Step)
		case *events.InDoubt:
			o.drop(e, d.Step)
		case *events.Skipped:
			o.skipped(e, d.Step)
		case *events.Checkpointed:
			o.saveCheckpoint(e, d)
		}
	}
	o.announce(t)
	if e.open && e.task.State.Terminal() {
		o.over(e)
	}
	o.dispatcher.Dispatch()
}

// queueStep queues a call that a commit made ready, unless a later event of the commit took it back, or an
// earlier one, such as the end of a pause, has handed it out already.
func (o *Orchestrator) queueStep(e *entry, d *events.Ready) {
	s := e.task.Steps[d.Step]
	if s.State == statemachine.StepReady && s.Attempt == d.Attempt && e.calls.Leases[d.Step] == nil && !o.stays(e, s) {
		o.queueCall(e, s)
	}
}

// queueCall queues a ready call, and wakes its task when nobody has taken it in time. One that is queued already goes on
// waiting.
func (o *Orchestrator) queueCall(e *entry, s *statemachine.Step) {
	old := e.calls.Queued[s.Key]
	q := o.dispatcher.Queue(&e.calls, s.Key, s.Attempt, laneOf(e.task, s), e.task.Submitted.Priority, e.task.CreatedAt)
	q.Since, q.Within = o.now(), o.startWithin(e, s)
	if old != nil && old.Attempt == s.Attempt {
		q.Since = old.Since
	}
	if q.Within > 0 {
		o.timers.set(q.Since.Add(q.Within), e.id)
	}
}

// moved takes the calls out of the queues that have to stay while an approval is awaited, and brings them
// back.
func (o *Orchestrator) moved(e *entry, kind events.Kind) {
	switch kind {
	case events.TaskApprovalRequested:
		o.dispatcher.RemoveAll(&e.calls)
		o.queueReady(e)
	case events.TaskApproved, events.TaskDeclined, events.TaskRevised, events.TaskExpired:
		o.queueReady(e)
	default: // changes nothing for the calls
	}
}

// paused takes the calls of a task out of the queues, or brings them back.
func (o *Orchestrator) paused(e *entry) {
	if !e.held() {
		o.queueReady(e)
		return
	}
	o.dispatcher.RemoveAll(&e.calls)
	o.leaveLine(e)
}

// skipped stops what runs for a step that the task does without.
func (o *Orchestrator) skipped(e *entry, step string) {
	o.dispatcher.Remove(&e.calls, step)
	o.revoke(e, step)
	o.cancelDelegated(e.id, step, parentEnded)
	if child := e.task.Steps[step].Child; child != "" {
		o.cancelLater(child, parentEnded)
	}
}

const parentEnded = "the parent task went on without it"

// over draws the consequences of the end of a task. The lock is held.
func (o *Orchestrator) over(e *entry) {
	e.open, e.behind, e.given = false, false, nil
	for _, step := range sortedKeys(e.calls.Leases) {
		if e.task.Steps[step].State.Over() { // single calls go on, and are missed when their worker is lost
			o.revoke(e, step)
		}
	}
	for _, key := range e.task.Order {
		if s := e.task.Steps[key]; s.Child != "" && s.State != statemachine.StepSucceeded && s.State != statemachine.StepFailed {
			o.cancelLater(s.Child, parentEnded)
		}
	}
	o.dropDelegated(e)
	if e.task.State != statemachine.Done {
		o.cancelDelegated(e.id, "", parentStopped)
	}
	for _, dep := range e.task.Unmet {
		o.unwait(dep, e.id)
	}
	o.timers.clear(e.id)
	o.quota.uncount(e)
	o.leaveKey(e)
	o.metDependency(e)
	o.tellParent(e)
	o.listed.whole = append(o.listed.whole, e.id)
	o.cfg.Over(e.id)
}
