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
}

// await calls see with a task now and after every news, such as each change, until see returns true or the wait is over.
func (rd *reader) await(ctx context.Context, id events.TaskID, wait time.Duration, news func(*entry) <-chan struct{}, see func(*entry) (bool, error)) error {
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
			if enough, err = see(e); !enough {
				changed = news(e)
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

// inspect runs fn with a task when everything about it is durable. fn runs with mu held.
func (en *engine) inspect(ctx context.Context, id events.TaskID, fn func(*entry) error) error {
	if err := en.serving(); err != nil {
		return err
	}
	if _, err := events.ParseTaskID(string(id)); err != nil {
		return err
	}
	done := make(chan error, 1)
	var taken atomic.Bool // set by fn, or by a caller that returns first: fn writes to what the caller returns
	en.lock()
	en.withEntry(id, func(e *entry, err error) {
		if !taken.CompareAndSwap(false, true) {
			return
		}
		if err == nil {
			err = fn(e)
		}
		done <- err
	})
	en.unlock()
	var left error
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		left = fault.From(ctx.Err())
	case <-en.stopped:
		left = stopping()
	}
	if !taken.CompareAndSwap(false, true) {
		return <-done
	}
	return left
}
