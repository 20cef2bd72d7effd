package sim_test

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
)

func unavailable() error { return fault.New(fault.Unavailable, "the log does not answer") }

// link is one owner's way to the log. Appends and loads of tasks wait in it until the driver answers
// them, so that the order in which goroutines come decides nothing.
type link struct {
	log   *memlog.Log
	owner int

	mu   sync.Mutex
	ops  []*op
	dead bool
	// gone is closed when the owner is dead.
	gone chan struct{}
	// noSides makes the side stores fail, noScan the scan of heads at the start.
	noSides, noScan bool
}

// op is one request that waits for its answer.
type op struct {
	link   *link
	task   events.TaskID
	record *events.Record
	// done takes the answer to an append, answer that to a load.
	done   func(seq uint64, err error)
	answer chan error
	// patience is how many more times the op is passed over; seen tells that it was drawn.
	patience int
	seen     bool
}

var (
	_ events.Log         = (*link)(nil)
	_ events.Blobs       = (*link)(nil)
	_ events.Checkpoints = (*link)(nil)
)

func newLink(log *memlog.Log, owner int) *link {
	return &link{log: log, owner: owner, gone: make(chan struct{})}
}

// die ends the owner's way to the log and returns what was under way.
func (l *link) die() []*op {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops := l.ops
	l.dead, l.ops = true, nil
	close(l.gone)
	return ops
}

func (l *link) enqueue(o *op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dead {
		l.ops = append(l.ops, o)
	}
}

func (l *link) remove(o *op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = slices.DeleteFunc(l.ops, func(x *op) bool { return x == o })
}

// waiting returns the ops in an order that does not depend on when they came.
func (l *link) waiting() []*op {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.ops, func(a, b *op) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.task, b.task))
	})
	return slices.Clone(l.ops)
}

func (o *op) rank() uint64 {
	if o.record == nil {
		return 0
	}
	return o.record.Rev
}

// Append implements events.Log.
func (l *link) Append(r events.Record, done func(seq uint64, err error)) {
	l.enqueue(&op{link: l, task: r.Task, record: &r, done: done})
}

// ofClient marks the context of a client, whose reads need not wait for the driver.
type ofClient struct{}

// Read implements events.Log.
func (l *link) Read(ctx context.Context, task events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	if ctx.Value(ofClient{}) != nil {
		return l.log.Read(ctx, task, from)
	}
	return func(yield func(events.Stored, error) bool) {
		o := &op{link: l, task: task, answer: make(chan error, 1)}
		l.enqueue(o)
		err := unavailable()
		select {
		case err = <-o.answer:
		case <-l.gone:
		}
		if err != nil {
			yield(events.Stored{}, err)
			return
		}
		l.log.Read(context.WithoutCancel(ctx), task, from)(yield)
	}
}

// Heads implements events.Log.
func (l *link) Heads(ctx context.Context) iter.Seq2[events.Head, error] {
	if l.noScan {
		return func(yield func(events.Head, error) bool) { yield(events.Head{}, unavailable()) }
	}
	return l.log.Heads(ctx)
}

// Past implements events.Log.
func (l *link) Past(ctx context.Context) iter.Seq2[events.Head, error] { return l.log.Past(ctx) }

// HasPast implements events.Log.
func (l *link) HasPast(ctx context.Context) (bool, error) { return l.log.HasPast(ctx) }

// Scan implements events.Log.
func (l *link) Scan(ctx context.Context, from uint64) iter.Seq2[events.Stored, error] {
	return l.log.Scan(ctx, from)
}

// sides returns why the side stores cannot be used, nil when they can.
func (l *link) sides() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.noSides || l.dead {
		return unavailable()
	}
	return nil
}

func (l *link) breakSides(broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noSides = broken
}

// Archive implements events.Log.
func (l *link) Archive(ctx context.Context, task events.TaskID) error {
	if err := l.sides(); err != nil {
		return err
	}
	return l.log.Archive(ctx, task)
}

// Remove implements events.Log.
func (l *link) Remove(ctx context.Context, tasks []events.TaskID) error {
	if err := l.sides(); err != nil {
		return err
	}
	return l.log.Remove(ctx, tasks)
}

// Put implements events.Blobs.
func (l *link) Put(ctx context.Context, data []byte) (string, error) {
	if err := l.sides(); err != nil {
		return "", err
	}
	return l.log.Put(ctx, data)
}

// Get implements events.Blobs.
func (l *link) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := l.sides(); err != nil {
		return nil, err
	}
	return l.log.Get(ctx, ref)
}

// Save implements events.Checkpoints.
func (l *link) Save(ctx context.Context, task events.TaskID, id string, data []byte) (string, error) {
	if err := l.sides(); err != nil {
		return "", err
	}
	return l.log.Save(ctx, task, id, data)
}

// Load implements events.Checkpoints.
func (l *link) Load(ctx context.Context, task events.TaskID, id string) ([]byte, error) {
	if err := l.sides(); err != nil {
		return nil, err
	}
	return l.log.Load(ctx, task, id)
}
