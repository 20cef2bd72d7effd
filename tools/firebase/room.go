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

// room is what the messages of all sessions share. Large ones share the bytes that wait, and the few that are made at a time, each of
// which takes many times its size for a moment. Who has no room waits. Sessions that have read everything go first, then those
// that have read something last, since the others may not read at all.
type room struct {
	most, turns int           // bytes, and messages that are made at a time
	patience    time.Duration // how long one waits
	mostSmall   int64
	// small are the bytes of small messages.
	small atomic.Int64

	mu      sync.Mutex // guards what follows
	used    int
	making  int
	waiting []*waiter
}

// waiter is a message that waits to be made.
type waiter struct {
	of    *session
	size  int
	ready chan struct{} // closed when it has its room
}

// before reports whether a waiter goes before one that came first.
func (w *waiter) before(first *waiter) bool {
	if read := w.of.bytes.Load() == 0; read != (first.of.bytes.Load() == 0) {
		return read
	}
	return w.of.heard.Load() > first.of.heard.Load()
}

func newRoom(cfg HubConfig) *room {
	return &room{most: cfg.Large, mostSmall: int64(cfg.Small), patience: cfg.Patience, turns: max(1, runtime.GOMAXPROCS(0)/2)}
}

// enter waits for the room of a message of about size bytes and for the turn to make it, which leave ends. QUOTA_EXCEEDED
// when that takes too long.
func (r *room) enter(ctx context.Context, of *session, size int) error {
	w := &waiter{of: of, size: size, ready: make(chan struct{})}
	r.mu.Lock()
	r.waiting = append(r.waiting, w)
	r.admit()
	r.mu.Unlock()
	late := time.NewTimer(r.patience)
	defer late.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		r.withdraw(w)
		return ctx.Err()
	case <-late.C:
		r.withdraw(w)
		return refusal.New(refusal.QuotaExceeded, "there was no room for an event of about %d bytes: clients have %d bytes to read", size, r.most).
			WithHint("subscribe again, to less")
	}
}

// withdraw gives up, also what was given meanwhile.
func (r *room) withdraw(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.waiting, w); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	} else {
		r.used -= w.size
		r.making--
	}
	r.admit()
}

// admit lets in who can be. One of any size always fits alone. The lock is held.
func (r *room) admit() {
	for r.making < r.turns {
		first := r.first()
		if first < 0 || r.used > 0 && r.used+r.waiting[first].size > r.most {
			return
		}
		w := r.waiting[first]
		r.waiting = slices.Delete(r.waiting, first, first+1)
		r.used += w.size
		r.making++
		close(w.ready)
	}
}

// first is the place of who goes first, of those whose sessions have their fair share: no more than is left. -1 when there is
// none. The lock is held.
func (r *room) first() int {
	first := -1
	for i, w := range r.waiting {
		has := int(w.of.bytes.Load())
		if fair := has == 0 || has+w.size <= r.most-r.used; fair && (first < 0 || w.before(r.waiting[first])) {
			first = i
		}
	}
	return first
}

// leave ends a turn; what was not used of its room is given back.
func (r *room) leave(unused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.making--
	r.used -= unused
	r.admit()
}

// take takes more room without waiting, or gives some back when it is less than nothing. A message that is being made may
// be larger than it looked.
func (r *room) take(size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used += size
	r.admit()
}

// has reports whether there is room for a message that has none yet.
func (r *room) has(size int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used+size <= r.most
}

// turnKey is the key of the turns of a context.
type turnKey struct{}

// Turns says when an event of about size bytes may be made. done is called when it was taken, and ends what was begun.
type Turns func(ctx context.Context, size int) (done func(), err error)

// WithTurns returns a context whose watches make no event before its turn: it takes many times its size for a moment.
func WithTurns(ctx context.Context, turns Turns) context.Context {
	return context.WithValue(ctx, turnKey{}, turns)
}

// Turn waits until a watch in ctx may make an event of about size bytes; at once where nobody has said otherwise. Errors:
// those of ctx and of the turns, after which the watch is over.
func Turn(ctx context.Context, size int) (done func(), err error) {
	if turns, ok := ctx.Value(turnKey{}).(Turns); ok {
		return turns(ctx, size)
	}
	return func() {}, nil
}
