package orchestrator

import (
	"context"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// This file moves one finished task to the archive.

// archiveGrace is how long the move of one task may continue after the node began to stop.
const archiveGrace = 2 * time.Second

// archive moves one finished task to the archive. The entry is busy meanwhile, so that nothing is appended between the copy and
// the removal; a later append fails because its condition no longer holds. A move that has started is completed even if the
// node stops. Otherwise the log would complete the move without an answer, and the folder of the task would not be removed
// until the next start.
func (ar *archiver) archive(ctx context.Context, id events.TaskID) error {
	held, state, err := ar.hold(ctx, id)
	if err != nil {
		return err
	}
	moving, stop := withGrace(ctx, archiveGrace)
	err = ar.cfg.Log.Archive(moving, id)
	stop()
	ar.lock()
	if err == nil {
		ar.engine.listed.markArchived(id)
		held.archived = true
	}
	ar.endHold(held)
	ar.unlock()
	if err == nil {
		ar.cfg.Hooks.Archived(id, state == statemachine.Done)
	}
	return err
}

// hold makes the entry of a finished task busy.
func (ar *archiver) hold(ctx context.Context, id events.TaskID) (held *entry, state statemachine.State, err error) {
	if held, state = ar.holdUnread(id); held != nil {
		return held, state, nil
	}
	err = ar.engine.inspect(ctx, id, func(e *entry) error {
		if !e.task.State.Terminal() || !e.idle() {
			return fault.New(fault.Conflict, "task %s is in use", id)
		}
		held, state = e, e.task.State
		e.busy = true
		return nil
	})
	return held, state, err
}

// holdUnread makes a busy entry for a finished task that is not in memory, without its history: the index of lists has its state.
// It returns nil if it cannot do so.
func (ar *archiver) holdUnread(id events.TaskID) (*entry, statemachine.State) {
	en := ar.engine
	if !ar.cfg.Lists.Complete() || en.mayRead(id) != nil {
		return nil, ""
	}
	ar.lock()
	_, unread := en.concurrencyKeys.unread[id]
	if en.tasks[id] != nil || en.asleep[id] != nil || unread {
		ar.unlock()
		return nil, ""
	}
	e := en.newEntry(id)
	e.busy = true
	en.tasks[id] = e
	ar.unlock()
	// The line includes all commits of before, and there are no others now. What ended before the start is read, which ends the calls
	// that were open then.
	line, ok := ar.cfg.Lists.Line(id)
	if ok && line.State.Terminal() && !line.Archived && line.UpdatedAt.After(en.started) {
		return e, line.State
	}
	ar.lock()
	defer ar.unlock()
	ar.endHold(e)
	return nil, ""
}

// endHold runs what waited for a held entry, and removes the entry if nothing depends on it. mu must be held.
func (ar *archiver) endHold(e *entry) {
	en := ar.engine
	switch {
	case e.task != nil:
		en.runQueuedTurns(e)
		if e.archived && e.idle() && en.tasks[e.id] == e {
			delete(en.tasks, e.id)
			en.finished.remove(e.id)
		}
	case len(e.turns) > 0:
		en.load(e)
	default:
		delete(en.tasks, e.id)
	}
}

// withGrace returns a context that ends a grace period after ctx.
func withGrace(ctx context.Context, longer time.Duration) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-own.Done():
		case <-time.After(longer):
			cancel()
		}
	})
	return own, func() { stop(); cancel() }
}
