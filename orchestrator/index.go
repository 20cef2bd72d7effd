package orchestrator

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// A restart has to find the open tasks among all that the log holds. So that it need not read the head
// of every task, an index of the open and the newest finished ones is written beside the log now and
// then, and at the end: the heads of later commits are all that is read.

// indexEvery is the beat at which an index is written, when the log has grown by indexGrowth since.
const (
	indexEvery  = 30 * time.Second
	indexGrowth = 2_000
)

// trackedLog is a log that knows up to which position every commit has been answered and followed up.
type trackedLog struct {
	events.Log

	mu sync.Mutex
	// newest is the newest position that was answered.
	newest uint64
	// inFlight holds, by append in flight, what newest was when it was sent: it gets a later position.
	inFlight map[uint64]uint64
	next     uint64
	// lost is what newest was when the first of the appends was sent whose fate nobody knows; they may be
	// in the log.
	lost *uint64
}

// Append implements events.Log.
func (s *trackedLog) Append(r events.Record, done func(seq uint64, err error)) {
	s.mu.Lock()
	s.next++
	flight := s.next
	s.inFlight[flight] = s.newest
	s.mu.Unlock()
	s.Log.Append(r, func(seq uint64, err error) {
		done(seq, err)
		s.completed(flight, seq, err)
	})
}

func (s *trackedLog) completed(flight, seq uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.inFlight[flight]
	delete(s.inFlight, flight)
	if fault.Has(err, fault.Unavailable) && (s.lost == nil || sent < *s.lost) {
		s.lost = &sent
	}
	s.newest = max(s.newest, seq)
}

// sent is the number of appends so far.
func (s *trackedLog) sent() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// processedUpTo is the position up to which everything in the log has been followed up.
func (s *trackedLog) processedUpTo() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	low := s.newest
	for _, sent := range s.inFlight {
		low = min(low, sent)
	}
	if s.lost != nil {
		low = min(low, *s.lost)
	}
	return low
}

// start sets the position that a restart has read up to.
func (s *trackedLog) start(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = max(s.newest, seq)
}

// recoveryScan is what a restart knows of the tasks of the log.
type recoveryScan struct {
	open map[events.TaskID]bool
	// order holds the open tasks in the order in which they were found; some may be over by now.
	order []events.TaskID
	seq   uint64
	// changed holds those of which there is a commit after the index.
	changed map[events.TaskID]bool
}

func (f *recoveryScan) take(l *listing, h events.Head) {
	f.seq = max(f.seq, h.Seq)
	if h.Seq != 0 {
		f.changed[h.Task] = true
	}
	if statemachine.State(h.State).Terminal() {
		delete(f.open, h.Task)
		l.addHead(h)
		return
	}
	if !f.open[h.Task] {
		f.open[h.Task] = true
		f.order = append(f.order, h.Task)
	}
}

// findOpenTasks finds the open tasks of the log, from the index if there is one.
func (o *Orchestrator) findOpenTasks(ctx context.Context) ([]events.TaskID, error) {
	index, err := o.loadIndex(ctx)
	if err != nil {
		return nil, err
	}
	f := recoveryScan{open: map[events.TaskID]bool{}, changed: map[events.TaskID]bool{}}
	o.lock()
	defer o.unlock()
	for h, err := range o.heads(ctx, index, &f) {
		if err != nil {
			return nil, err
		}
		f.take(&o.listed, h)
	}
	o.log.start(f.seq)
	if index != nil {
		o.letSleep(index.Asleep, &f)
	}
	open := f.order[:0]
	for _, id := range f.order {
		if f.open[id] {
			open = append(open, id)
			delete(f.open, id) // it may have been found twice
		}
	}
	return open, nil
}

// heads takes the heads of an index and returns those that are to be read from the log. The lock is held.
func (o *Orchestrator) heads(ctx context.Context, index *events.Index, f *recoveryScan) iter.Seq2[events.Head, error] {
	if index == nil {
		return o.cfg.Log.Heads(ctx)
	}
	f.seq = index.Seq
	if index.Partial {
		o.listed.forget(o.started)
	}
	for _, h := range index.Heads {
		f.take(&o.listed, h)
	}
	return o.cfg.Indexes.HeadsAfter(ctx, index.Seq)
}

// loadIndex returns nil when there is no index.
func (o *Orchestrator) loadIndex(ctx context.Context) (*events.Index, error) {
	if o.cfg.Indexes == nil {
		return nil, nil //nolint:nilnil // no index is no fault
	}
	index, err := o.cfg.Indexes.LoadIndex(ctx)
	if fault.Has(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // no index is no fault
	}
	return &index, err
}

// indexLoop writes an index whenever the log has grown enough, and at the end.
func (o *Orchestrator) indexLoop(ctx context.Context) {
	if o.cfg.Indexes == nil {
		return
	}
	tick := time.NewTicker(indexEvery)
	defer tick.Stop()
	written := uint64(0)
	for {
		least := written + indexGrowth
		select {
		case <-tick.C:
		case <-ctx.Done():
			least = written + 1
		}
		if seq := o.log.processedUpTo(); seq >= least {
			o.saveIndex(context.WithoutCancel(ctx), seq)
			written = seq
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// saveIndex writes the index for a position that was read before.
func (o *Orchestrator) saveIndex(ctx context.Context, seq uint64) {
	index := events.Index{Seq: seq}
	o.lock()
	ids, partial := o.listed.ids(), !o.listed.forgotten.IsZero()
	for id := range o.unread {
		index.Heads = append(index.Heads, events.Head{Task: id})
	}
	o.unlock()
	index.Partial = partial
	for part := range slices.Chunk(ids, indexChunk) { // what changes in between comes after the position
		o.lock()
		for _, id := range part {
			o.indexTask(id, &index)
		}
		o.unlock()
	}
	if err := o.cfg.Indexes.SaveIndex(ctx, index); err != nil {
		o.cfg.Logger.WarnContext(ctx, "index_not_written", slog.Any("error", err))
	}
}

// indexChunk is how many tasks are put into an index while the lock is held once.
const indexChunk = 250

// indexTask adds what memory knows of a task. The lock is held.
func (o *Orchestrator) indexTask(id events.TaskID, index *events.Index) {
	s := o.listed.lines[id]
	if s == nil || s.Archived {
		return
	}
	index.Heads = append(index.Heads, events.Head{
		Task: s.ID, State: string(s.State), At: s.UpdatedAt, Name: s.Name, Parent: s.Parent, Created: s.CreatedAt,
	})
	if s.State.Terminal() {
		return
	}
	if a := o.sleeperOf(s, index.Seq); a != nil {
		index.Asleep = append(index.Asleep, events.Sleeper{Task: id, Note: decide.MustJSON(a)})
	}
}

// ids are those of the open tasks and, in the order of their end, of the finished ones.
func (l *listing) ids() []events.TaskID {
	ids := make([]events.TaskID, 0, len(l.waiting)+len(l.ended))
	for id := range l.waiting {
		ids = append(ids, id)
	}
	return append(ids, l.ended...)
}
