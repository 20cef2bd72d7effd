package sim_test

import (
	"cmp"
	"context"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
)

func unavailable() error { return fault.New(fault.Unavailable, "the log does not answer") }

// link is the connection of one owner to the log. Appends and loads wait in it until the driver answers them, so that
// the scheduling of goroutines has no influence.
type link struct {
	log   *memlog.Log
	owner int

	mu   sync.Mutex
	ops  []*op
	dead bool
	// gone is closed when the owner is dead.
	gone chan struct{}
	// failSides makes the side stores fail, noScan makes the scan of heads at the start fail.
	failSides, failScan bool
}

// op is one request that waits for its answer.
type op struct {
	link   *link
	task   events.TaskID
	record *events.Record
	// reader is where a load is requested: two parts of an owner may load the same task at the same instant.
	reader uintptr
	// done receives the answer to an append, answer the answer to a load.
	done   func(seq uint64, err error)
	answer chan error
	// patience is how many more times the op is skipped; seen is true once that was drawn.
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

// die closes the link and returns the pending operations.
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

// waiting returns the pending operations in an order that does not depend on their arrival.
func (l *link) waiting() []*op {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.ops, func(a, b *op) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.task, b.task), cmp.Compare(a.reader, b.reader))
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

// ofClient marks the context of a client: its reads need not wait for the driver.
type ofClient struct{}

// Read implements events.Log.
func (l *link) Read(ctx context.Context, task events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	if ctx.Value(ofClient{}) != nil {
		return l.log.Read(ctx, task, from)
	}
	return func(yield func(events.Stored, error) bool) {
		reader, _, _, _ := runtime.Caller(1)
		o := &op{link: l, task: task, reader: reader, answer: make(chan error, 1)}
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
	if l.failScan {
		return func(yield func(events.Head, error) bool) { yield(events.Head{}, unavailable()) }
	}
	return l.log.Heads(ctx)
}

// ArchivedHeads implements events.Log.
func (l *link) ArchivedHeads(ctx context.Context) iter.Seq2[events.Head, error] {
	return l.log.ArchivedHeads(ctx)
}

// HasArchived implements events.Log.
func (l *link) HasArchived(ctx context.Context) (bool, error) { return l.log.HasArchived(ctx) }

// Scan implements events.Log.
func (l *link) Scan(ctx context.Context, from uint64) iter.Seq2[events.Stored, error] {
	return l.log.Scan(ctx, from)
}

// sides returns why the side stores cannot be used, nil when they can.
func (l *link) sides() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failSides || l.dead {
		return unavailable()
	}
	return nil
}

func (l *link) breakSides(broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failSides = broken
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
