package orchestrator

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// reader answers requests that read tasks.
type reader struct {
	*core

	engine *engine
	blobs  *blobStore
	pauses *pauseList
	// relatives finds the families of tasks.
	relatives *relatives
	// past is the task that was last read at a revision in the past. known are references that tasks have.
	past  pastTask
	known knownValues
}

// await calls check with a task at once, and again whenever the channel that nextChange returned is closed, until check returns
// true or an error, or wait has passed. nextChange is called before each wait.
func (rd *reader) await(ctx context.Context, id events.TaskID, wait time.Duration, nextChange func(*entry) <-chan struct{}, check func(*entry) (bool, error)) error {
	if wait > 0 {
		done, err := rd.waiting()
		if err != nil {
			return err
		}
		defer done()
	}
	timer := time.NewTimer(max(min(wait, maxWait), 0))
	defer timer.Stop()
	for expired := wait <= 0; ; {
		var changed <-chan struct{}
		enough := false
		err := rd.engine.inspect(ctx, id, func(e *entry) error {
			var err error
			if enough, err = check(e); !enough {
				changed = nextChange(e)
			}
			return err
		})
		if err != nil || enough || expired {
			return err
		}
		select {
		case <-changed:
		case <-timer.C:
			expired = true
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-rd.stopped:
			return stopping()
		}
	}
}

// inMemory reports whether a task is in memory, or is being read.
func (en *engine) inMemory(id events.TaskID) bool {
	en.lock()
	defer en.unlock()
	return en.tasks[id] != nil
}

// mayRead returns why no task can be read now, or why an id is not the id of a task.
func (en *engine) mayRead(id events.TaskID) error {
	if err := en.serving(); err != nil {
		return err
	}
	_, err := events.ParseTaskID(string(id))
	return err
}

// readable waits until every commit of a task that the log has is durable. It does not load a task that is not in memory.
func (rd *reader) readable(ctx context.Context, id events.TaskID) error {
	if err := rd.engine.mayRead(id); err != nil {
		return err
	}
	if !rd.engine.inMemory(id) {
		return nil
	}
	return rd.engine.inspect(ctx, id, func(*entry) error { return nil })
}

// inspect runs fn with a task when all its events are durable. fn runs with mu held.
func (en *engine) inspect(ctx context.Context, id events.TaskID, fn func(*entry) error) error {
	if err := en.mayRead(id); err != nil {
		return err
	}
	done := make(chan error, 1)
	// claimed is set by the callback that runs fn, or by inspect when it gives up. fn writes to variables of the caller, so fn
	// must not run after inspect has returned.
	var claimed atomic.Bool
	en.lock()
	en.withEntry(id, func(e *entry, err error) {
		if !claimed.CompareAndSwap(false, true) {
			return
		}
		if err == nil {
			err = fn(e)
		}
		done <- err
	})
	en.unlock()
	var gaveUp error
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		gaveUp = fault.From(ctx.Err())
	case <-en.stopped:
		gaveUp = stopping()
	}
	if !claimed.CompareAndSwap(false, true) {
		return <-done
	}
	return gaveUp
}
