package orchestrator

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// This file removes archived tasks when their retention has expired, in the background and in small steps. It stores no
// progress: a run that was interrupted is repeated.

const (
	// removeEvery is the interval between two scans for expired tasks. removeFirst is the delay of the first scan after the
	// start. After a failure, the next scan follows after ten times removeFirst.
	removeEvery = 24 * time.Hour
	removeFirst = time.Minute
	// removePart is how many tasks are removed at a time.
	removePart = 100
)

// due reports whether the retention of a task has expired.
func (r Retention) due(h events.Head, now time.Time) bool {
	keep := r.Failed
	if statemachine.State(h.State) == statemachine.Done {
		keep = r.Done
	}
	return keep > 0 && now.Sub(h.At) > keep
}

// removeLoop removes expired tasks once a day.
func (ar *archiver) removeLoop(ctx context.Context) {
	if ar.cfg.Limits.Retention == (Retention{}) {
		return
	}
	for next := removeFirst; ; {
		sleep(ctx, next)
		if ctx.Err() != nil {
			return
		}
		next = removeEvery
		if err := ar.removeOld(ctx); err != nil && ctx.Err() == nil {
			ar.cfg.Logger.WarnContext(ctx, "tasks_not_removed", slog.Any("error", err))
			next = 10 * removeFirst
		}
	}
}

// removeOld removes the tasks that are due. It sleeps half of the time, to leave resources for other work.
func (ar *archiver) removeOld(ctx context.Context) (err error) {
	due, err := ar.dueTasks(ctx)
	removed := 0
	if err == nil && len(due) > 0 && ar.cfg.Hooks.Removing != nil {
		ended, wrong := ar.cfg.Hooks.Removing(ctx, len(due))
		if wrong != nil {
			return wrong
		}
		defer func() { ended(removed, err) }()
	}
	for part := range slices.Chunk(due, removePart) {
		if err != nil || ctx.Err() != nil {
			break
		}
		began := time.Now()
		var n int
		n, err = ar.removeSome(ctx, part)
		removed += n
		sleep(ctx, time.Since(began))
	}
	if removed > 0 {
		ar.cfg.Logger.InfoContext(ctx, "tasks_removed", slog.Int("tasks", removed), slog.Int("due", len(due)),
			slog.Duration("keep_done", ar.cfg.Limits.Retention.Done), slog.Duration("keep_failed", ar.cfg.Limits.Retention.Failed))
	}
	return err
}

// removeSome removes archived tasks, except those in use, and returns how many.
func (ar *archiver) removeSome(ctx context.Context, ids []events.TaskID) (int, error) {
	ar.lock()
	ids = slices.DeleteFunc(slices.Clone(ids), func(id events.TaskID) bool {
		e := ar.engine.tasks[id]
		return e != nil && (e.task == nil || !e.idle())
	})
	ar.unlock()
	if err := ar.lister.remove(ctx, ids); err != nil {
		return 0, err
	}
	ar.lock()
	defer ar.unlock()
	for _, id := range ids {
		if e := ar.engine.tasks[id]; e != nil && e.task != nil && e.idle() {
			delete(ar.engine.tasks, id)
			ar.engine.finished.remove(id)
		}
		delete(ar.engine.listed.lines, id)
	}
	return len(ids), nil
}

// dueTasks returns the archived tasks to remove. A family of tasks, which is a topmost parent with all its descendants, is
// removed together when the retention of all of them has expired. So no remaining task refers to a parent or a child that was
// removed.
func (ar *archiver) dueTasks(ctx context.Context) ([]events.TaskID, error) {
	now, f := ar.now(), families{parent: map[events.TaskID]events.TaskID{}, parentsOfKept: map[events.TaskID]bool{}}
	for h, err := range ar.archivedHeads(ctx) {
		if err != nil {
			return nil, err
		}
		due := ar.cfg.Limits.Retention.due(h, now)
		if due && h.Imported {
			if h.At, err = ar.importedAt(ctx, h); err != nil {
				return nil, err
			}
			due = ar.cfg.Limits.Retention.due(h, now)
		}
		f.add(h.Task, h.Parent, due)
	}
	ar.lock()
	for id, line := range ar.engine.listed.lines {
		if !line.Archived {
			f.add(id, line.Parent, false)
		}
	}
	ar.unlock()
	return f.due(func(id events.TaskID) (bool, error) { return ar.exists(ctx, id) })
}

// importedAt returns when a task was imported, from which its retention counts. A task that was removed meanwhile stays due.
func (ar *archiver) importedAt(ctx context.Context, h events.Head) (time.Time, error) {
	for stored, err := range ar.cfg.Log.Read(ctx, h.Task, h.Rev) {
		switch note := importOf(stored); {
		case err != nil && !absent(err):
			return h.At, err
		case note != nil:
			return note.At, nil
		default:
			return h.At, nil
		}
	}
	return h.At, nil
}

// archivedHeads yields the heads of the archived tasks. There may be millions, so without an index of lists it reads them one by one
// if the log supports that.
func (ar *archiver) archivedHeads(ctx context.Context) iter.Seq2[events.Head, error] {
	if ar.cfg.Lists.Complete() {
		return withoutErrors(ar.cfg.Lists.Heads(true, time.Time{}))
	}
	type ordered interface {
		ArchivedAfter(ctx context.Context, position uint64) iter.Seq2[events.Head, error]
	}
	if log, ok := ar.log.Log.(ordered); ok {
		return log.ArchivedAfter(ctx, 0)
	}
	return ar.cfg.Log.ArchivedHeads(ctx)
}

// exists reports whether there is a task, live or archived.
func (ar *archiver) exists(ctx context.Context, id events.TaskID) (bool, error) {
	for _, err := range ar.cfg.Log.Read(ctx, id, 1) {
		switch {
		case absent(err):
			return false, nil
		case unreadableHistory(err):
			return true, nil
		default:
			return true, err
		}
	}
	return false, nil
}

// families finds the families of tasks that can be removed completely.
type families struct {
	// parent maps each due task to its parent.
	parent map[events.TaskID]events.TaskID
	// parentsOfKept holds the parents of the tasks that are not due.
	parentsOfKept map[events.TaskID]bool
}

func (f *families) add(id, parent events.TaskID, due bool) {
	switch {
	case due:
		f.parent[id] = parent
	case parent != "":
		f.parentsOfKept[parent] = true
	}
}

// root returns the topmost task that is reached from a due task by following parents that are due as well.
func (f *families) root(id events.TaskID) events.TaskID {
	for {
		above := f.parent[id]
		if _, due := f.parent[above]; !due {
			return id
		}
		id = above
	}
}

// due returns the tasks of the families in which all tasks are due, the oldest ids first.
func (f *families) due(exists func(events.TaskID) (bool, error)) ([]events.TaskID, error) {
	stays := map[events.TaskID]bool{} // by root
	for id := range f.parentsOfKept {
		if _, due := f.parent[id]; due {
			stays[f.root(id)] = true
		}
	}
	known := map[events.TaskID]bool{"": false}
	var ids []events.TaskID
	for _, id := range sortedKeys(f.parent) {
		root := f.root(id)
		above := f.parent[root]
		if _, asked := known[above]; !asked {
			there, err := exists(above)
			if err != nil {
				return nil, err
			}
			known[above] = there
		}
		if !stays[root] && !known[above] {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
