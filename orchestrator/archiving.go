package orchestrator

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// This file holds what moves finished tasks to the archive: by age, and when somebody asks for it. Both are done by one
// goroutine in small steps; a run that was asked for is noted in the store and goes on after a restart.

// archiveID is the entry of the checkpoint store, beside that of what is paused, that keeps the run.
const archiveID = "archive"

// archiveRun is what somebody has asked for. The lock guards it.
type archiveRun struct {
	// before is the time since which the tasks have not changed.
	before time.Time
	// archived and left count the tasks that were moved, and those that were in use or could not be moved.
	archived, left int
	// err is why the run stands still, nil when it goes on.
	err *fault.Error
	// over is closed at the end.
	over chan struct{}
}

// archiveNote is what the store keeps of a run; an empty one says that there is none.
type archiveNote struct {
	Before time.Time `json:"before,omitzero"`
}

// archiver moves finished tasks to the archive, and removes archived ones that are kept no longer.
type archiver struct {
	*core

	engine *engine
	reader *reader
	holds  *holdList
	// archiving is the newest run that was asked for, nil when there was none; archiveNow wakes who does it.
	archiving  *archiveRun
	archiveNow chan struct{}
}

// Archive implements api.API.
func (ar *archiver) Archive(ctx context.Context, r api.ArchiveRequest) (api.ArchiveReply, error) {
	if err := ar.serving(); err != nil {
		return api.ArchiveReply{}, err
	}
	if r.Wait < 0 || r.Age < 0 {
		return api.ArchiveReply{}, fault.New(fault.ValidationError, "is negative").WithField("wait, age")
	}
	run, err := ar.beginArchiving(ctx, r)
	if err != nil || run == nil {
		return api.ArchiveReply{}, err
	}
	wait := time.NewTimer(min(r.Wait, maxArchiveWait))
	defer wait.Stop()
	select {
	case <-run.over:
	case <-wait.C:
	case <-ctx.Done():
		return api.ArchiveReply{}, fault.From(ctx.Err())
	case <-ar.stopped:
		return api.ArchiveReply{}, stopping()
	}
	ar.lock()
	defer ar.unlock()
	return run.reply(), nil
}

// maxArchiveWait bounds the wait of one request for the end of a run.
const maxArchiveWait = 30 * time.Second

func (r *archiveRun) reply() api.ArchiveReply {
	reply := api.ArchiveReply{Archived: r.archived, Skipped: r.left, Running: true, Before: r.before, Error: r.err}
	select {
	case <-r.over:
		reply.Running = false
	default:
	}
	return reply
}

// beginArchiving returns the run that does what a request asks for; one that goes on is given more to do. Nil when only
// the newest run is asked for and there was none.
func (ar *archiver) beginArchiving(ctx context.Context, r api.ArchiveRequest) (*archiveRun, error) {
	before := ar.now().Add(-r.Age)
	ar.holds.holding.Lock()
	defer ar.holds.holding.Unlock()
	ar.lock()
	run, runs := ar.archiving, ar.archiving.runs()
	ar.unlock()
	if r.StatusOnly || runs && !before.After(run.before) {
		return run, nil
	}
	if _, err := ar.cfg.Checkpoints.Save(ctx, controlTask, archiveID, decide.MustJSON(archiveNote{before})); err != nil {
		return nil, err
	}
	return ar.setArchiving(before), nil
}

// setArchiving makes a run, or lets the one that goes on do more.
func (ar *archiver) setArchiving(before time.Time) *archiveRun {
	ar.lock()
	defer ar.unlock()
	if !ar.archiving.runs() {
		ar.archiving = &archiveRun{over: make(chan struct{})}
	}
	ar.archiving.before = before
	select {
	case ar.archiveNow <- struct{}{}:
	default:
	}
	return ar.archiving
}

func (r *archiveRun) runs() bool {
	if r == nil {
		return false
	}
	select {
	case <-r.over:
		return false
	default:
		return true
	}
}

// restoreArchiving takes up the run that the node before has not ended. It has to be done before requests are served, which may give
// the run more to do.
func (ar *archiver) restoreArchiving(ctx context.Context) {
	data, err := ar.cfg.Checkpoints.Load(ctx, controlTask, archiveID)
	if fault.Has(err, fault.NotFound) {
		return
	}
	var note archiveNote
	if err == nil {
		err = json.Unmarshal(data, &note)
	}
	if err != nil {
		ar.cfg.Logger.WarnContext(ctx, "archive_run_unknown", slog.Any("error", err))
	}
	if !note.Before.IsZero() {
		ar.setArchiving(note.Before)
	}
}

// archiveLoop archives finished tasks when they are old enough, and when somebody asks for it.
func (ar *archiver) archiveLoop(ctx context.Context) {
	tick := time.NewTicker(min(max(ar.cfg.Limits.ArchiveAfter/10, time.Second), time.Minute))
	defer tick.Stop()
	again := time.NewTimer(0) // a run that stands still is tried again sooner
	defer again.Stop()
	again.Stop()
	failed := map[events.TaskID]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-again.C:
		case <-ar.archiveNow:
		}
		for ar.archiveStep(ctx, failed) { // there is more
		}
		ar.lock()
		if ar.archiving.runs() {
			again.Reset(archiveAgain)
		}
		ar.unlock()
	}
}

// archiveAgain is when a run that stands still goes on.
const archiveAgain = 2 * time.Second

// archiveStep archives some of what is old enough, and reports whether there may be more. failed holds the tasks
// that could not be archived, and when: they are left alone for a while.
func (ar *archiver) archiveStep(ctx context.Context, failed map[events.TaskID]time.Time) (more bool) {
	const again = 10 * time.Minute
	now := ar.now()
	before := now.Add(-ar.cfg.Limits.ArchiveAfter)
	maps.DeleteFunc(failed, func(_ events.TaskID, at time.Time) bool { return now.Sub(at) >= again })
	ar.lock()
	run := ar.archiving
	if !run.runs() {
		run = nil
	}
	if run != nil && run.before.After(before) {
		before = run.before
	}
	ar.unlock()
	limit := archiveBatch + len(failed)
	ids, err := ar.archivable(ctx, before, limit)
	full := len(ids) == limit
	ids = slices.DeleteFunc(ids, func(id events.TaskID) bool { _, wait := failed[id]; return wait })
	if err == nil {
		err = ar.archiveAll(ctx, ids, run, failed)
	}
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		ar.cfg.Logger.WarnContext(ctx, "archive_incomplete", slog.Any("error", err))
	}
	more = err == nil && full
	if run != nil && !more {
		more = ar.endArchiving(ctx, run, before, err)
	}
	return more
}

// archiveBatch is how many tasks are archived before it is looked for more.
const archiveBatch = 2000

// endArchiving ends a run that is through, unless it was given more to do meanwhile; one that cannot go on stands still.
func (ar *archiver) endArchiving(ctx context.Context, run *archiveRun, before time.Time, err error) (more bool) {
	ar.holds.holding.Lock()
	defer ar.holds.holding.Unlock()
	ar.lock()
	more = err == nil && run.before.After(before)
	run.err = nil
	if err != nil {
		run.err = fault.From(err)
	}
	ar.unlock()
	if more || err != nil {
		return more
	}
	if _, err := ar.cfg.Checkpoints.Save(ctx, controlTask, archiveID, decide.MustJSON(archiveNote{})); err != nil {
		ar.cfg.Logger.WarnContext(ctx, "archive_end_not_noted", slog.Any("error", err)) // it is found to be through after a restart
	}
	ar.lock()
	defer ar.unlock()
	close(run.over)
	return false
}

const (
	// archivers is how many tasks are archived at the same time when there is nothing else to do.
	archivers = 8
	// archivePart is how many are archived before it is looked whether there is.
	archivePart = 64
)

// archiveAll archives tasks, those in use left out. It takes half of the time of one goroutine while other work is done,
// and more when there is none. An error is one that every other task would have as well.
func (ar *archiver) archiveAll(ctx context.Context, ids []events.TaskID, run *archiveRun, failed map[events.TaskID]time.Time) error {
	seen := ar.log.sent()
	width := 1
	for part := range slices.Chunk(ids, archivePart) {
		began := time.Now()
		err := ar.archivePartOf(ctx, part, width, run, failed)
		if err != nil || ctx.Err() != nil {
			return err
		}
		width = archivers
		if sent := ar.log.sent(); sent != seen {
			seen, width = sent, 1
			rest(ctx, time.Since(began))
		}
	}
	return nil
}

// rest waits, unless ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// archivePartOf archives some tasks, so many at the same time.
func (ar *archiver) archivePartOf(ctx context.Context, ids []events.TaskID, width int, run *archiveRun, failed map[events.TaskID]time.Time) error {
	next := make(chan events.TaskID, len(ids))
	for _, id := range ids {
		next <- id
	}
	close(next)
	var mu sync.Mutex // guards failed and stop
	var stop error
	var group sync.WaitGroup
	for range width {
		group.Go(func() {
			for id := range next {
				err := ar.archive(ctx, id)
				mu.Lock()
				if stop != nil || ctx.Err() != nil {
					mu.Unlock()
					return
				}
				if fault.Has(err, fault.Unavailable) || fault.Has(err, fault.DiskFull) {
					stop = err // so it would be for every other task
				}
				if err != nil {
					failed[id] = ar.now()
					ar.cfg.Logger.WarnContext(ctx, "archive_failed", slog.Any("task", id), slog.Any("error", err))
				}
				mu.Unlock()
				ar.count(run, err)
			}
		})
	}
	group.Wait()
	for id := range failed {
		if stop != nil && slices.Contains(ids, id) {
			delete(failed, id) // the log is at fault
		}
	}
	return stop
}

// count notes in a run how the archiving of a task has ended.
func (ar *archiver) count(run *archiveRun, err error) {
	if run == nil {
		return
	}
	ar.lock()
	defer ar.unlock()
	if err == nil {
		run.archived++
		run.err = nil
	} else if !fault.Has(err, fault.Unavailable) && !fault.Has(err, fault.DiskFull) {
		run.left++
	}
}

// archivable lists finished tasks that have not changed since a time: those that have a line, then those
// that memory has forgotten. With an error the list may be too short.
func (ar *archiver) archivable(ctx context.Context, before time.Time, limit int) ([]events.TaskID, error) {
	ids, forgotten := ar.archivableLines(before, limit)
	if len(ids) == limit || forgotten.IsZero() {
		return ids, nil
	}
	seen := map[events.TaskID]bool{}
	for h, err := range ar.oldHeads(ctx, before) {
		if err != nil || len(ids) == limit {
			return ids, err
		}
		if statemachine.State(h.State).Terminal() && !seen[h.Task] && !ar.remembers(h.Task) {
			seen[h.Task] = true
			ids = append(ids, h.Task)
		}
	}
	return ids, nil
}

// archivableLines lists those of which there is a line, and returns up to when tasks were forgotten.
func (ar *archiver) archivableLines(before time.Time, limit int) (ids []events.TaskID, forgotten time.Time) {
	ar.lock()
	ended, forgotten := slices.Clone(ar.engine.listed.ended), ar.engine.listed.forgotten
	ar.unlock()
	for part := range slices.Chunk(ended, indexChunk) {
		ar.lock()
		for _, id := range part {
			if len(ids) < limit && ar.mayArchive(id, before) {
				ids = append(ids, id)
			}
		}
		ar.unlock()
		if len(ids) == limit {
			break
		}
	}
	return ids, forgotten
}

// mayArchive reports whether a finished task of which there is a line has not changed since a time, and is not in use. The
// lock is held.
func (ar *archiver) mayArchive(id events.TaskID, before time.Time) bool {
	line := ar.engine.listed.lines[id]
	if line == nil || line.Archived || !line.UpdatedAt.Before(before) {
		return false
	}
	e := ar.engine.tasks[id]
	return e == nil || e.task != nil && e.idle()
}

// remembers reports whether there is a line of a task.
func (ar *archiver) remembers(id events.TaskID) bool {
	ar.lock()
	defer ar.unlock()
	return ar.engine.listed.lines[id] != nil
}

// oldHeads yields the heads of the live log that are older than a time. In the order of the log they
// are the first ones.
func (ar *archiver) oldHeads(ctx context.Context, before time.Time) iter.Seq2[events.Head, error] {
	return func(yield func(events.Head, error) bool) {
		ordered := ar.cfg.Indexes != nil
		heads := ar.cfg.Log.Heads
		if ordered {
			heads = func(ctx context.Context) iter.Seq2[events.Head, error] { return ar.cfg.Indexes.HeadsAfter(ctx, 0) }
		}
		for h, err := range heads(ctx) {
			old := err == nil && h.At.Before(before)
			if err == nil && !old && ordered {
				return
			}
			if (old || err != nil) && !yield(h, err) {
				return
			}
		}
	}
}

// archiveWithin is how long the move of one task may take that has begun when the node stops.
const archiveWithin = 2 * time.Second

// archive moves one finished task to the archive. Its entry is busy meanwhile, so that nothing is
// appended between the copy and the removal; a later append is refused by its condition. A move that has begun is ended also when the
// node stops: the log would move on without an answer, and nobody would put the folder of the task away until a node starts.
func (ar *archiver) archive(ctx context.Context, id events.TaskID) error {
	var held *entry
	done := false
	err := ar.engine.look(ctx, id, func(e *entry) error {
		if !e.task.State.Terminal() || !e.idle() {
			return fault.New(fault.Conflict, "task %s is in use", id)
		}
		held, done = e, e.task.State == statemachine.Done
		e.busy = true
		return nil
	})
	if err != nil {
		return err
	}
	moving, stop := unhurried(ctx, archiveWithin)
	err = ar.cfg.Log.Archive(moving, id)
	stop()
	ar.lock()
	if err == nil {
		ar.engine.listed.markArchived(id)
		held.archived = true
	}
	ar.engine.release(held)
	if err == nil && held.idle() && ar.engine.tasks[id] == held {
		delete(ar.engine.tasks, id)
		ar.engine.listed.dropWhole(id)
	}
	ar.unlock()
	if err == nil {
		ar.cfg.Hooks.Archived(id, done)
	}
	return err
}

// unhurried returns a context that goes on for a while when ctx has ended.
func unhurried(ctx context.Context, longer time.Duration) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-own.Done():
		case <-time.After(longer):
			cancel()
		}
	})
	return own, func() { stop(); cancel() }
}
