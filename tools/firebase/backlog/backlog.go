// Package backlog provides a bounded queue between a stream of events and its reader. Add never blocks, and a reader
// that is too far behind gets an error.
package backlog

import (
	"context"
	"iter"
	"sync"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Default is the default for how many events a reader may be behind.
const Default = 1024

// MaxHeld is the default for how many bytes of data a reader may be behind. A single event may be larger.
const MaxHeld = 32 << 20

// Queue is the queue of one reader. New creates a Queue.
type Queue struct {
	maxEvents int
	maxBytes  int
	wake      chan struct{} // contains a token after a change

	mu      sync.Mutex // guards the following fields
	entries []entry
	bytes   int
	ended   bool
	err     error // error that ended the queue, yielded after the queued events
}

// entry is a queued event. The event is built when it is read.
type entry struct {
	event func() firebase.Event
	size  int
}

// New returns a queue of at most maxEvents events and maxBytes bytes; 0 means Default and MaxHeld.
func New(maxEvents, maxBytes int) *Queue {
	if maxEvents == 0 {
		maxEvents = Default
	}
	if maxBytes == 0 {
		maxBytes = MaxHeld
	}
	return &Queue{maxEvents: maxEvents, maxBytes: maxBytes, wake: make(chan struct{}, 1)}
}

// Add queues an event with a size in bytes. event is called when the reader reaches it. Add returns false once the
// queue has ended; it ends the queue with QUOTA_EXCEEDED when the reader is too far behind.
func (q *Queue) Add(event func() firebase.Event, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return false
	}
	if len(q.entries) >= q.maxEvents || len(q.entries) > 0 && q.bytes+size > q.maxBytes {
		q.finish(refusal.New(refusal.QuotaExceeded, "the reader fell too far behind: more than %d events or %d bytes", q.maxEvents, q.maxBytes).
			WithHint("subscribe again, and read faster"))
		return false
	}
	q.entries = append(q.entries, entry{event, size})
	q.bytes += size
	q.notify()
	return true
}

// End ends the queue. The reader gets the queued events and then err, unless it is nil. Only the first call has an
// effect.
func (q *Queue) End(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.finish(err)
	}
}

// finish ends the queue. q.mu must be held.
func (q *Queue) finish(err error) {
	q.ended, q.err = true, err
	q.notify()
}

func (q *Queue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next removes the oldest event. If there is none, ended and err report whether and why the queue has ended.
func (q *Queue) next() (first entry, ok, ended bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.entries) == 0 {
		return entry{}, false, q.ended, q.err
	}
	first = q.entries[0]
	q.entries[0] = entry{}
	q.entries = q.entries[1:]
	q.bytes -= first.size
	return first, true, false, nil
}

// Events returns a sequence of the events, which can be iterated once. The sequence ends when the queue has ended, or when
// ctx ends, without yielding the error of ctx. It then calls stop. It builds each event after waiting for its turn
// (firebase.Turn).
func (q *Queue) Events(ctx context.Context, stop func()) iter.Seq2[firebase.Event, error] {
	return func(yield func(firebase.Event, error) bool) {
		defer stop()
		for ctx.Err() == nil {
			first, ok, ended, err := q.next()
			switch {
			case ok && !yieldEvent(ctx, first, yield):
				return
			case ok:
			case ended && err != nil:
				yield(firebase.Event{}, err)
				return
			case ended:
				return
			default:
				select {
				case <-ctx.Done():
				case <-q.wake:
				}
			}
		}
	}
}

// yieldEvent waits for the turn of an event, builds it and yields it. It returns false when the iteration must end.
func yieldEvent(ctx context.Context, e entry, yield func(firebase.Event, error) bool) bool {
	done, err := firebase.Turn(ctx, e.size)
	switch {
	case ctx.Err() != nil && err != nil:
		return false
	case err != nil:
		yield(firebase.Event{}, err)
		return false
	}
	defer done()
	return yield(e.event(), nil)
}
