package firebase

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// budget limits the memory for the messages of all sessions. Encoding a large message takes many times its size. So large
// messages share a number of bytes and a few encoding slots, and wait until both are available. Sessions that have
// acknowledged all messages take precedence, then sessions with the most recent acknowledgement, because the client of
// any other session may not read at all.
type budget struct {
	limit, slots int           // maximum of used, and of encoding
	patience     time.Duration // maximum wait for budget
	smallLimit   int64
	// small counts the bytes of small messages.
	small atomic.Int64

	mu       sync.Mutex // guards the following fields
	used     int        // bytes of large messages
	encoding int        // large messages that are being encoded
	waiters  []*waiter
}

// waiter is a large message that waits for budget.
type waiter struct {
	session *session
	size    int
	ready   chan struct{} // closed when the budget is granted
}

// before reports whether w takes precedence over other, which has waited longer.
func (w *waiter) before(other *waiter) bool {
	if idle := w.session.bytes.Load() == 0; idle != (other.session.bytes.Load() == 0) {
		return idle
	}
	return w.session.lastAck.Load() > other.session.lastAck.Load()
}

func newBudget(cfg HubConfig) *budget {
	return &budget{limit: cfg.Large, smallLimit: int64(cfg.Small), patience: cfg.Patience, slots: max(1, runtime.GOMAXPROCS(0)/2)}
}

// acquire waits until a message of about size bytes gets budget and an encoding slot. The caller must call release to
// free the slot. It returns QUOTA_EXCEEDED after the maximum wait.
func (b *budget) acquire(ctx context.Context, s *session, size int) error {
	w := &waiter{session: s, size: size, ready: make(chan struct{})}
	b.mu.Lock()
	b.waiters = append(b.waiters, w)
	b.grant()
	b.mu.Unlock()
	timer := time.NewTimer(b.patience)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		b.cancel(w)
		return ctx.Err()
	case <-timer.C:
		b.cancel(w)
		return refusal.New(refusal.QuotaExceeded, "there was no room for an event of about %d bytes: clients have %d bytes to read", size, b.limit).
			WithHint("subscribe again to less data")
	}
}

// cancel removes a waiter, and releases the budget if it was granted in the meantime.
func (b *budget) cancel(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiters, w); i >= 0 {
		b.waiters = slices.Delete(b.waiters, i, i+1)
	} else {
		b.used -= w.size
		b.encoding--
	}
	b.grant()
}

// grant grants budget to waiters while it lasts. If no budget is used, a message of any size gets budget. b.mu must be
// held.
func (b *budget) grant() {
	for b.encoding < b.slots {
		i := b.next()
		if i < 0 || b.used > 0 && b.used+b.waiters[i].size > b.limit {
			return
		}
		w := b.waiters[i]
		b.waiters = slices.Delete(b.waiters, i, i+1)
		b.used += w.size
		b.encoding++
		close(w.ready)
	}
}

// next returns the index of the waiter that gets budget next, or -1 if there is none. It skips sessions that would then use
// more bytes than are still free. b.mu must be held.
func (b *budget) next() int {
	first := -1
	for i, w := range b.waiters {
		used := int(w.session.bytes.Load())
		if fair := used == 0 || used+w.size <= b.limit-b.used; fair && (first < 0 || w.before(b.waiters[first])) {
			first = i
		}
	}
	return first
}

// release frees an encoding slot, and the unused bytes of the message's budget.
func (b *budget) release(unused int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.encoding--
	b.used -= unused
	b.grant()
}

// adjust adds size, which may be negative, to the used bytes without waiting. An encoded message may be larger than
// estimated.
func (b *budget) adjust(size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += size
	b.grant()
}

// has reports whether there is budget for a message of size bytes that has not reserved any.
func (b *budget) has(size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used+size <= b.limit
}

// turnKey is the context key of Turns.
type turnKey struct{}

// Turns is a function that waits until an event of about size bytes may be built. The caller must call done when the event
// has been consumed.
type Turns func(ctx context.Context, size int) (done func(), err error)

// WithTurns returns a context for Backend.Watch. The watch calls turns before it builds an event, because building an
// event takes many times its size in memory.
func WithTurns(ctx context.Context, turns Turns) context.Context {
	return context.WithValue(ctx, turnKey{}, turns)
}

// Turn calls the Turns in ctx (see WithTurns), so that it waits until a watch may build an event of about size bytes.
// Without WithTurns it returns at once. After an error, the watch must end.
func Turn(ctx context.Context, size int) (done func(), err error) {
	if turns, ok := ctx.Value(turnKey{}).(Turns); ok {
		return turns(ctx, size)
	}
	return func() {}, nil
}
