package orchestrator

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// recovery finds the open tasks of a log at the start, and writes an index for the next start.
type recovery struct {
	*core

	engine     *engine
	reader     *reader
	archiver   *archiver
	operations *operations
}

// A restart must find the open tasks among all tasks in the log. To avoid reading the head of every task, an index of the open
// tasks, and of the newest finished ones as long as Lists lacks some, is written next to the log, from time to time and at the end. A
// restart reads only the index and the heads of later commits.

// An index is written every indexEvery if the log has grown by indexGrowth commits since the last one.
const (
	indexEvery  = 30 * time.Second
	indexGrowth = 2_000
)

// recoveryScan collects the open tasks of the log at a restart.
type recoveryScan struct {
	open map[events.TaskID]bool
	// order holds the tasks in the order in which they were found open. A later head may have ended a task; see open.
	order []events.TaskID
	// seq is the highest position so far.
	seq uint64
	// changed holds the tasks with a commit after the index; nil without an index.
	changed map[events.TaskID]bool
}

// addHead adds the head of a task. A later head of a task replaces an earlier one.
func (f *recoveryScan) addHead(l *listing, h events.Head) {
	f.seq = max(f.seq, h.Seq)
	if h.Seq != 0 && f.changed != nil {
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

// findOpenTasks finds the open tasks of the log, with the index if there is one.
func (rc *recovery) findOpenTasks(ctx context.Context) ([]events.TaskID, error) {
	index, err := rc.loadIndex(ctx)
	if err != nil {
		return nil, err
	}
	f := recoveryScan{open: map[events.TaskID]bool{}}
	rc.lock()
	defer rc.unlock()
	for h, err := range rc.heads(ctx, index, &f) {
		if err != nil {
			return nil, err
		}
		f.addHead(&rc.engine.listed, h)
	}
	rc.log.start(f.seq)
	if index != nil {
		rc.restoreSleepers(index.Asleep, &f)
	}
	open := f.order[:0]
	for _, id := range f.order {
		if f.open[id] {
			open = append(open, id)
			delete(f.open, id) // a task may be found twice
		}
	}
	return open, nil
}

// heads applies the heads of an index, and returns the heads that must be read from the log. mu must be held.
func (rc *recovery) heads(ctx context.Context, index *events.Index, f *recoveryScan) iter.Seq2[events.Head, error] {
	switch {
	case index == nil && rc.cfg.Indexes == nil:
		return rc.cfg.Log.Heads(ctx)
	case index == nil:
		return rc.cfg.Indexes.HeadsAfter(ctx, 0) // in the order of the log, so that the newest tasks get lines
	}
	f.seq, f.changed = index.Seq, map[events.TaskID]bool{}
	if index.Partial {
		rc.engine.listed.raiseForgotten(rc.started)
	}
	for _, h := range index.Heads {
		f.addHead(&rc.engine.listed, h)
	}
	return rc.cfg.Indexes.HeadsAfter(ctx, index.Seq)
}

// loadIndex returns the newest index, or nil if there is none.
func (rc *recovery) loadIndex(ctx context.Context) (*events.Index, error) {
	if rc.cfg.Indexes == nil {
		return nil, nil //nolint:nilnil // a missing index is not an error
	}
	index, err := rc.cfg.Indexes.LoadIndex(ctx)
	if fault.Has(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // a missing index is not an error
	}
	return &index, err
}

// indexLoop writes an index whenever the log has grown enough, and at the end.
func (rc *recovery) indexLoop(ctx context.Context) {
	if rc.cfg.Indexes == nil {
		return
	}
	tick := time.NewTicker(indexEvery)
	defer tick.Stop()
	written := uint64(0)
	for {
		minSeq := written + indexGrowth
		select {
		case <-tick.C:
		case <-ctx.Done():
			minSeq = written + 1
		}
		if seq := rc.log.processedUpTo(); seq >= minSeq {
			rc.saveIndex(context.WithoutCancel(ctx), seq)
			written = seq
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// saveIndex writes the index for position seq of the log. Later changes may be in the index as well.
func (rc *recovery) saveIndex(ctx context.Context, seq uint64) {
	index := events.Index{Seq: seq}
	rc.indexOpen(&index)
	rc.indexFinished(&index) // after the open ones: a later head replaces an earlier one
	if err := rc.cfg.Indexes.SaveIndex(ctx, index); err != nil {
		rc.cfg.Logger.WarnContext(ctx, "index_not_written", slog.Any("error", err))
	}
}

// indexChunk is how many tasks are processed before mu is released for other goroutines.
const indexChunk = 250

// indexOpen adds the ids of the open tasks to an index, and the sleepers among them. The next start reads changes made meanwhile,
// because they come after the position of the index.
func (rc *recovery) indexOpen(index *events.Index) {
	index.Heads = make([]events.Head, 0, rc.cfg.Lists.Open())
	rc.lock()
	for id := range rc.engine.concurrencyKeys.unread { // before the others, so that it misses none that is read meanwhile
		index.Heads = append(index.Heads, events.Head{Task: id})
	}
	rc.unlock()
	for h := range rc.cfg.Lists.OpenHeads() {
		index.Heads = append(index.Heads, events.Head{Task: h.Task})
	}
	for part := range slices.Chunk(index.Heads, indexChunk) {
		for _, a := range rc.sleepersOf(part, index.Seq) {
			index.Asleep = append(index.Asleep, events.Sleeper{Task: a.Line.ID, Note: decide.MustJSON(a)})
		}
	}
}

// sleepersOf returns the sleepers among open tasks.
func (rc *recovery) sleepersOf(part []events.Head, seq uint64) (all []*sleeper) {
	rc.lock()
	defer rc.unlock()
	for i := range part {
		if a := rc.engine.sleeperOf(part[i].Task, seq); a != nil {
			all = append(all, a)
		}
	}
	return all
}

// indexFinished adds the lines of finished tasks to an index, in the order of their end. There are none if the index of lists has all
// finished tasks, which the next start reads from its file.
func (rc *recovery) indexFinished(index *events.Index) {
	rc.lock()
	ended := slices.Clone(rc.engine.listed.ended)
	index.Partial = !rc.engine.listed.forgottenUntil.IsZero()
	rc.unlock()
	for part := range slices.Chunk(ended, indexChunk) {
		rc.lock()
		for _, id := range part {
			if s := rc.engine.listed.lines[id]; s != nil && !s.Archived {
				index.Heads = append(index.Heads, events.Head{
					Task: s.ID, State: string(s.State), At: s.UpdatedAt, Name: s.Name, Parent: s.Parent, Created: s.CreatedAt,
				})
			}
		}
		rc.unlock()
	}
}

// restoreSleepers adds the sleepers of an index that have not changed since, so that their histories are not read now. mu must
// be held.
func (rc *recovery) restoreSleepers(all []events.Sleeper, f *recoveryScan) {
	for _, s := range all {
		a := &sleeper{}
		if f.changed[s.Task] || !f.open[s.Task] || json.Unmarshal(s.Note, a) != nil || a.Line.ID != s.Task {
			continue
		}
		delete(f.open, s.Task)
		rc.engine.asleep[s.Task] = a
		rc.cfg.Lists.Put(a.Line, 0)
		rc.engine.people.sleeps(a)
		rc.quota.add(a.share())
		rc.timers.setMaybe(a.Wake, s.Task)
	}
}

// restore finds the open tasks in the log and loads them.
func (rc *recovery) restore(ctx context.Context) error {
	if err := rc.operations.restorePauses(ctx); err != nil {
		return err
	}
	rc.archiver.restoreRun(ctx)
	open, err := rc.findOpenTasks(ctx)
	if err != nil {
		return err
	}
	if err := rc.checkArchive(ctx); err != nil {
		return err
	}
	failpoint.Pass(failpoint.Restoring)
	return rc.restoreOpen(ctx, open)
}

// checkArchive checks whether the archive contains tasks, so that lists read it on request.
func (rc *recovery) checkArchive(ctx context.Context) error {
	has, err := rc.cfg.Log.HasArchived(ctx)
	if err != nil || !has {
		return err
	}
	rc.lock()
	defer rc.unlock()
	rc.engine.listed.raiseForgotten(rc.started)
	return nil
}

// restoreOpen loads open tasks. It logs tasks that cannot be read.
func (rc *recovery) restoreOpen(ctx context.Context, open []events.TaskID) error {
	const readers = 16
	results := make(chan error, len(open))
	slots := make(chan struct{}, readers)
	for _, id := range open {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		rc.lock()
		rc.engine.withEntry(id, func(_ *entry, err error) { <-slots; results <- err })
		rc.unlock()
	}
	for range open {
		select {
		case err := <-results:
			if err != nil && !fault.Has(err, fault.NotFound) && ctx.Err() == nil {
				rc.cfg.Logger.ErrorContext(ctx, "open_task_unreadable", slog.Any("error", err))
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
