package orchestrator

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// This file moves finished tasks to the archive when they are old enough, and earlier on request. One goroutine does both in
// small steps. A requested run is recorded in the checkpoint store, so that it continues after a restart.

// archiveID is the key of the recorded run in the checkpoint store, under controlTask like the pauses.
const archiveID = "archive"

// archiveRun is a run that was requested. mu guards it.
type archiveRun struct {
	// before is the cutoff: tasks that have changed since are not archived.
	before time.Time
	// archived counts the tasks that were moved, skipped those that were in use or could not be moved.
	archived, skipped int
	// err is why the run makes no progress, nil while it does.
	err *fault.Error
	// done is closed when the run ends.
	done chan struct{}
}

// archiveRecord is the record of a run in the store. An empty record means that there is no run.
type archiveRecord struct {
	Before time.Time `json:"before,omitzero"`
}

// archiver moves finished tasks to the archive and removes archived tasks whose retention has expired.
type archiver struct {
	*core

	engine *engine
	reader *reader
	lister *lister
	pauses *pauseList
	// archiving is the newest requested run, nil if there was none. archiveNow wakes archiveLoop.
	archiving  *archiveRun
	archiveNow chan struct{}
}

// Archive implements api.Tasks.
func (ar *archiver) Archive(ctx context.Context, r api.ArchiveRequest) (api.ArchiveReply, error) {
	if err := ar.serving(); err != nil {
		return api.ArchiveReply{}, err
	}
	if r.Wait < 0 || r.Age < 0 {
		return api.ArchiveReply{}, fault.New(fault.ValidationError, "is negative").WithField("wait, age")
	}
	run, err := ar.startRun(ctx, r)
	if err != nil || run == nil {
		return api.ArchiveReply{}, err
	}
	wait := time.NewTimer(min(r.Wait, maxArchiveWait))
	defer wait.Stop()
	select {
	case <-run.done:
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

// maxArchiveWait limits how long one request waits for the end of a run.
const maxArchiveWait = 30 * time.Second

func (r *archiveRun) reply() api.ArchiveReply {
	reply := api.ArchiveReply{Archived: r.archived, Skipped: r.skipped, Running: true, Before: r.before, Error: r.err}
	select {
	case <-r.done:
		reply.Running = false
	default:
	}
	return reply
}

// startRun returns the run that serves a request: a new one, or the current one extended to the requested age. It returns
// nil if the request only asks for the status and there was no run.
func (ar *archiver) startRun(ctx context.Context, r api.ArchiveRequest) (*archiveRun, error) {
	before := ar.now().Add(-r.Age)
	ar.pauses.changing.Lock()
	defer ar.pauses.changing.Unlock()
	ar.lock()
	run, running := ar.archiving, ar.archiving.running()
	ar.unlock()
	if r.StatusOnly || running && !before.After(run.before) {
		return run, nil
	}
	if err := saveRecord(ctx, ar.cfg.Checkpoints, archiveID, archiveRecord{before}); err != nil {
		return nil, err
	}
	return ar.setRun(before), nil
}

// setRun creates a run, or extends the current one.
func (ar *archiver) setRun(before time.Time) *archiveRun {
	ar.lock()
	defer ar.unlock()
	if !ar.archiving.running() {
		ar.archiving = &archiveRun{done: make(chan struct{})}
	}
	ar.archiving.before = before
	select {
	case ar.archiveNow <- struct{}{}:
	default:
	}
	return ar.archiving
}

// running reports whether a run has not ended. A nil run is not running.
func (r *archiveRun) running() bool {
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// restoreRun continues the run that was not finished when the node stopped. It must be called before requests are served,
// because they may extend the run.
func (ar *archiver) restoreRun(ctx context.Context) {
	var record archiveRecord
	if err := loadRecord(ctx, ar.cfg.Checkpoints, archiveID, &record); err != nil {
		ar.cfg.Logger.WarnContext(ctx, "archive_run_unknown", slog.Any("error", err))
	}
	if !record.Before.IsZero() {
		ar.setRun(record.Before)
	}
}

// archiveLoop archives finished tasks when they are old enough, and on request.
func (ar *archiver) archiveLoop(ctx context.Context) {
	tick := time.NewTicker(min(max(ar.cfg.Limits.ArchiveAfter/10, time.Second), time.Minute))
	defer tick.Stop()
	retry := time.NewTimer(0) // retries a run that failed
	defer retry.Stop()
	retry.Stop()
	failed := map[events.TaskID]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-retry.C:
		case <-ar.archiveNow:
		}
		for ar.archiveStep(ctx, failed) { // there may be more tasks
		}
		ar.lock()
		if ar.archiving.running() {
			retry.Reset(archiveRetryDelay)
		}
		ar.unlock()
	}
}

// archiveRetryDelay is the delay before a failed run is retried.
const archiveRetryDelay = 2 * time.Second

// archiveStep archives a batch of tasks that are old enough, and reports whether there may be more. failed holds the tasks that
// could not be archived, with the time of the failure; they are skipped for a while.
func (ar *archiver) archiveStep(ctx context.Context, failed map[events.TaskID]time.Time) (more bool) {
	const retryAfter = 10 * time.Minute
	now := ar.now()
	before, most := ar.due(now)
	maps.DeleteFunc(failed, func(_ events.TaskID, at time.Time) bool { return now.Sub(at) >= retryAfter })
	ar.lock()
	run := ar.archiving
	if !run.running() {
		run = nil
	}
	if run != nil && run.before.After(before) {
		before = run.before
	}
	ar.unlock()
	limit := most + len(failed)
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
		more = ar.endRun(ctx, run, before, err)
	}
	return more
}

const (
	// archiveBatch is how many tasks are archived before the list is read again.
	archiveBatch = 20_000
	// archiveEarly is how long ago a task must have ended to be archived early.
	archiveEarly = 5 * time.Minute
)

// due returns the time before which finished tasks must have changed last to be archived, and how many of them to archive. If too
// many are not archived, the oldest are archived early: each of them takes memory in the live log.
func (ar *archiver) due(now time.Time) (before time.Time, most int) {
	before = now.Add(-ar.cfg.Limits.ArchiveAfter)
	if !ar.cfg.Lists.Complete() {
		return before, archiveBatch
	}
	early := now.Add(-archiveEarly)
	if excess := ar.cfg.Lists.Unarchived() - ar.cfg.Limits.KeepUnarchived; excess > 0 && early.After(before) {
		return early, min(excess, archiveBatch)
	}
	return before, archiveBatch
}

// endRun ends a completed run, unless it was extended meanwhile. A run with an error is kept and retried.
func (ar *archiver) endRun(ctx context.Context, run *archiveRun, before time.Time, err error) (more bool) {
	ar.pauses.changing.Lock()
	defer ar.pauses.changing.Unlock()
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
	if err := saveRecord(ctx, ar.cfg.Checkpoints, archiveID, archiveRecord{}); err != nil {
		ar.cfg.Logger.WarnContext(ctx, "archive_end_not_noted", slog.Any("error", err)) // a restart finds that nothing is left to do
	}
	ar.lock()
	defer ar.unlock()
	close(run.done)
	return false
}

const (
	// archivers is how many tasks are archived concurrently while the node is idle, busyArchivers while it is busy.
	archivers, busyArchivers = 32, 8
	// archivePart is how many tasks are archived before the load of the node is checked again.
	archivePart = 64
)

// busyWidth is how many tasks are archived concurrently while the node is busy. Archiving mostly waits for the disk: if it falls
// behind, more tasks share the waits.
func (ar *archiver) busyWidth() int {
	if ar.cfg.Lists.Complete() && ar.cfg.Lists.Unarchived() > 2*ar.cfg.Limits.KeepUnarchived {
		return archivers
	}
	return busyArchivers
}

// archiveAll archives tasks, except those in use. While the node is busy, it works half of the time, on fewer tasks at a time. It
// returns only errors that every other task would get as well.
func (ar *archiver) archiveAll(ctx context.Context, ids []events.TaskID, run *archiveRun, failed map[events.TaskID]time.Time) error {
	seen := ar.log.sent()
	width := ar.busyWidth()
	for part := range slices.Chunk(ids, archivePart) {
		began := time.Now()
		err := ar.archivePartOf(ctx, part, width, run, failed)
		if err != nil || ctx.Err() != nil {
			return err
		}
		width = archivers
		if sent := ar.log.sent(); sent != seen {
			seen, width = sent, ar.busyWidth()
			sleep(ctx, time.Since(began))
		}
	}
	return nil
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// archivePartOf archives tasks in width goroutines. It records failures in failed. It returns only errors that every other task
// would get as well.
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
					stop = err // every other task would fail as well
				}
				if err != nil {
					failed[id] = ar.now()
					ar.cfg.Logger.WarnContext(ctx, "archive_failed", slog.Any("task", id), slog.Any("error", err))
				}
				mu.Unlock()
				ar.countArchived(run, err)
			}
		})
	}
	group.Wait()
	ar.lister.noteArchived(ctx)
	for id := range failed {
		if stop != nil && slices.Contains(ids, id) {
			delete(failed, id) // the log failed, not the task
		}
	}
	return stop
}

// countArchived counts a task in a run by the result of its archiving. run may be nil.
func (ar *archiver) countArchived(run *archiveRun, err error) {
	if run == nil {
		return
	}
	ar.lock()
	defer ar.unlock()
	if err == nil {
		run.archived++
		run.err = nil
	} else if !fault.Has(err, fault.Unavailable) && !fault.Has(err, fault.DiskFull) {
		run.skipped++
	}
}

// archivable returns at most limit finished tasks that have not changed since a time: first tasks in the list, then tasks that
// were evicted from memory. With an error it returns the tasks found so far.
func (ar *archiver) archivable(ctx context.Context, before time.Time, limit int) ([]events.TaskID, error) {
	ids, forgotten := ar.archivableListed(before, limit)
	if len(ids) == limit || forgotten.IsZero() {
		return ids, nil
	}
	seen := map[events.TaskID]bool{}
	for h, err := range ar.oldHeads(ctx, before) {
		if err != nil || len(ids) == limit {
			return ids, err
		}
		if statemachine.State(h.State).Terminal() && !seen[h.Task] && !ar.listedOrUsed(h.Task) {
			seen[h.Task] = true
			ids = append(ids, h.Task)
		}
	}
	return ids, nil
}

// archivableListed returns the archivable tasks in the list. forgotten is listing.forgottenUntil.
func (ar *archiver) archivableListed(before time.Time, limit int) (ids []events.TaskID, forgotten time.Time) {
	ar.lock()
	ended, forgotten := slices.Clone(ar.engine.listed.ended), ar.engine.listed.forgottenUntil
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

// mayArchive reports whether a finished task in the list has not changed since a time and is not in use. mu must be held.
func (ar *archiver) mayArchive(id events.TaskID, before time.Time) bool {
	line := ar.engine.listed.lines[id]
	if line == nil || line.Archived || !line.UpdatedAt.Before(before) {
		return false
	}
	return !ar.inUse(id)
}

// inUse reports whether a task is in memory for something other than lists. mu must be held.
func (ar *archiver) inUse(id events.TaskID) bool {
	e := ar.engine.tasks[id]
	return e != nil && (e.task == nil || !e.idle())
}

// listedOrUsed reports whether a task is in the list or in use.
func (ar *archiver) listedOrUsed(id events.TaskID) bool {
	ar.lock()
	defer ar.unlock()
	return ar.engine.listed.lines[id] != nil || ar.inUse(id)
}

// oldHeads yields the heads of the live log that are older than a time, at least those of finished tasks. Indexes yields heads in
// the order of the log, so the first newer head ends the sequence.
func (ar *archiver) oldHeads(ctx context.Context, before time.Time) iter.Seq2[events.Head, error] {
	if ar.cfg.Lists.Complete() {
		return withoutErrors(ar.cfg.Lists.Heads(false, before))
	}
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

// withoutErrors yields heads with a nil error.
func withoutErrors(heads iter.Seq[events.Head]) iter.Seq2[events.Head, error] {
	return func(yield func(events.Head, error) bool) {
		for h := range heads {
			if !yield(h, nil) {
				return
			}
		}
	}
}
