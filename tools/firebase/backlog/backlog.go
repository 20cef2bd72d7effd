// Package backlog is what lies between a stream of events and its reader: a bounded queue. Who adds never
// waits, and a reader that falls too far behind learns that it did.
package backlog

import (
	"context"
	"iter"
	"sync"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Default is how many events a reader may be behind.
const Default = 1024

// MaxHeld is how many bytes of data a reader may be behind unless New is told otherwise; one event of any size always fits.
const MaxHeld = 32 << 20

// Queue is the queue of one reader. New makes it.
type Queue struct {
	limit int
	most  int           // bytes
	wake  chan struct{} // has a token when something changed

	mu      sync.Mutex // guards what follows
	waiting []entry
	held    int
	ended   bool
	err     error // why it ended, yielded after what waits
}

// entry is an event that is made when it is read.
type entry struct {
	event func() firebase.Event
	size  int
}

// New returns a queue of at most limit events and most bytes; 0 is Default and MaxHeld.
func New(limit, most int) *Queue {
	if limit == 0 {
		limit = Default
	}
	if most == 0 {
		most = MaxHeld
	}
	return &Queue{limit: limit, most: most, wake: make(chan struct{}, 1)}
}

// Add queues an event of a size in bytes, which is made when it is read. It reports false from when the
// queue has ended; a reader that is too far behind ends it with QUOTA_EXCEEDED.
func (q *Queue) Add(event func() firebase.Event, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return false
	}
	if len(q.waiting) >= q.limit || len(q.waiting) > 0 && q.held+size > q.most {
		q.finish(refusal.New(refusal.QuotaExceeded, "the reader fell too far behind: more than %d events or %d bytes", q.limit, q.most).
			WithHint("subscribe again, and read faster"))
		return false
	}
	q.waiting = append(q.waiting, entry{event, size})
	q.held += size
	q.rouse()
	return true
}

// End says that nothing is added any more: the reader gets what waits, and then err, unless it is nil. The
// first end counts.
func (q *Queue) End(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.finish(err)
	}
}

func (q *Queue) finish(err error) {
	q.ended, q.err = true, err
	q.rouse()
}

func (q *Queue) rouse() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next takes the oldest event; ended says that none will follow, and why.
func (q *Queue) next() (first entry, ok, ended bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return entry{}, false, q.ended, q.err
	}
	first = q.waiting[0]
	q.waiting[0] = entry{}
	q.waiting = q.waiting[1:]
	q.held -= first.size
	return first, true, false, nil
}

// Events yields until the context ends, whose error is not yielded, or the queue; stop is called then. It
// is ranged over once. Each event is made when it is its turn (firebase.WithTurns).
func (q *Queue) Events(ctx context.Context, stop func()) iter.Seq2[firebase.Event, error] {
	return func(yield func(firebase.Event, error) bool) {
		defer stop()
		for ctx.Err() == nil {
			first, ok, ended, err := q.next()
			switch {
			case ok && !made(ctx, first, yield):
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

// made yields an event when it is its turn. It reports false when no more is wanted.
func made(ctx context.Context, e entry, yield func(firebase.Event, error) bool) bool {
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
