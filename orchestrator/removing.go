package orchestrator

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/retention"
	"github.com/orch-dev/orch/statemachine"
)

// This file removes archived tasks when their retention has expired, in the background and in small steps. It stores no
// progress: a run that was interrupted is repeated.

const (
	// removeEvery is the interval between two scans for expired tasks. removeFirst is the delay of the first scan after the
	// start. After a failure, the next scan follows after ten times removeFirst.
	removeEvery = 24 * time.Hour
	removeFirst = time.Minute
	// removePart is how many tasks are removed at a time, preservePart how many are archived elsewhere at a time before.
	removePart   = 100
	preservePart = 1000
)

// times returns the retention times of all tasks.
func (r Retention) times() retention.Rules {
	return retention.Rules{Rules: r.Rules, Default: retention.Keep{Done: r.Done, Failed: r.Failed, Workspaces: r.Workspaces, FailedWorkspaces: r.FailedWorkspaces}}
}

// removes reports whether any task is ever removed.
func (r Retention) removes() bool {
	shortest := r.times().Shortest()
	return !r.ReportOnly && (shortest.Done > 0 || shortest.Failed > 0)
}

// expired reports whether the retention of a task in a state has expired that counts from a time.
func expired(keep retention.Keep, state string, at, now time.Time) bool {
	d := keep.Failed
	if statemachine.State(state) == statemachine.Done {
		d = keep.Done
	}
	return d > 0 && now.Sub(at) > d
}

// removeLoop removes expired tasks once a day.
func (ar *archiver) removeLoop(ctx context.Context) {
	if !ar.cfg.Limits.Retention.removes() {
		return
	}
	for next := removeFirst; ; {
		sleep(ctx, next)
		if ctx.Err() != nil {
			return
		}
		next = removeEvery
		err := ar.removeOld(ctx)
		ar.removalFails.Store(err != nil)
		if err != nil && ctx.Err() == nil {
			ar.cfg.Logger.WarnContext(ctx, "tasks_not_removed", slog.Any("error", err))
			next = 10 * removeFirst
		}
	}
}

// removeOld removes the tasks that are due. It sleeps half of the time, to leave resources for other work.
func (ar *archiver) removeOld(ctx context.Context) (err error) {
	due, _, err := ar.dueTasks(ctx)
	removed := 0
	if err == nil && len(due) > 0 && ar.cfg.Hooks.Removing != nil {
		ended, wrong := ar.cfg.Hooks.Removing(ctx, len(due))
		if wrong != nil {
			return wrong
		}
		defer func() { ended(removed, err) }()
	}
	for part := range familiesOf(due, ar.removePart()) {
		if err != nil || ctx.Err() != nil {
			break
		}
		if part, err = ar.preserve(ctx, part); err != nil {
			break
		}
		for some := range familiesOf(part, removePart) {
			began := time.Now()
			var n int
			n, err = ar.removeSome(ctx, some)
			removed += n
			ar.removed.Add(int64(n))
			if err != nil || ctx.Err() != nil {
				break
			}
			sleep(ctx, time.Since(began))
		}
	}
	if removed > 0 {
		ar.cfg.Logger.InfoContext(ctx, "tasks_removed", slog.Int("tasks", removed), slog.Int("due", len(due)),
			slog.Duration("keep_done", ar.cfg.Limits.Retention.Done), slog.Duration("keep_failed", ar.cfg.Limits.Retention.Failed))
	}
	return err
}

// removePart returns how many tasks are archived elsewhere at a time.
func (ar *archiver) removePart() int {
	if ar.cfg.Hooks.Preserve == nil {
		return removePart
	}
	return preservePart
}

// preserve archives tasks elsewhere before they are removed, if that is configured, and returns those that may be removed. A family
// with a task that could not be archived stays.
func (ar *archiver) preserve(ctx context.Context, part []dueTask) ([]dueTask, error) {
	if ar.cfg.Hooks.Preserve == nil {
		return part, nil
	}
	left, err := ar.cfg.Hooks.Preserve(ctx, idsOf(part))
	if err != nil || len(left) == 0 {
		return part, err
	}
	stays := map[events.TaskID]bool{}
	for _, t := range part {
		if why := left[t.id]; why != nil {
			stays[t.family] = true
			ar.cfg.Logger.WarnContext(ctx, "task_not_archived_outside", slog.String("task", string(t.id)), slog.Any("error", why))
		}
	}
	return slices.DeleteFunc(slices.Clone(part), func(t dueTask) bool { return stays[t.family] }), nil
}

// removeSome removes archived tasks, except those in use and families that were held meanwhile, and returns how many. No hold is placed
// while it runs.
func (ar *archiver) removeSome(ctx context.Context, part []dueTask) (int, error) {
	defer ar.cfg.Holds.Guard()()
	part = slices.DeleteFunc(slices.Clone(part), func(t dueTask) bool { return ar.cfg.Holds.Held(t.family) })
	ar.lock()
	ids := slices.DeleteFunc(idsOf(part), func(id events.TaskID) bool {
		return ar.inUse(id)
	})
	ar.unlock()
	if len(ids) == 0 {
		return 0, nil
	}
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

// dueTask is a task to remove. family is its topmost parent, rule the number of the rule that it is due by.
type dueTask struct {
	id, family events.TaskID
	dueHead
}

// dueHead is what the heads of due tasks say: when the time of a task began, and by which rule it is due.
type dueHead struct {
	parent events.TaskID
	at     int64 // in microseconds
	rule   int32
	done   bool
}

func idsOf(part []dueTask) []events.TaskID {
	ids := make([]events.TaskID, len(part))
	for i, t := range part {
		ids[i] = t.id
	}
	return ids
}

// familiesOf yields due tasks in parts of about a size. A family is in one part, unless it has more than that many tasks.
func familiesOf(due []dueTask, size int) iter.Seq[[]dueTask] {
	return func(yield func([]dueTask) bool) {
		for len(due) > 0 {
			n := min(size, len(due))
			for n < len(due) && n < 2*size && due[n].family == due[n-1].family {
				n++
			}
			if !yield(due[:n]) {
				return
			}
			due = due[n:]
		}
	}
}

// dueTasks returns the archived tasks to remove, family by family, and counts those that a hold keeps. A family of tasks, which is a topmost
// parent with all its descendants, is removed together when the retention of all of them has expired. So no remaining task refers to a
// parent or a child that was removed.
func (ar *archiver) dueTasks(ctx context.Context) (due []dueTask, counts kept, err error) {
	now, rules, held := ar.now(), ar.cfg.Limits.Retention.times(), ar.cfg.Holds.Tasks()
	shortest, f := rules.Shortest(), newFamilies()
	ar.addLive(&f) // before the archived ones, so that it misses no task that is archived meanwhile
	for h, err := range ar.archivedHeads(ctx) {
		if err != nil {
			return nil, counts, err
		}
		entry, isDue := dueHead{parent: h.Parent, done: statemachine.State(h.State) == statemachine.Done}, false
		if expired(shortest, h.State, h.At, now) {
			if isDue, err = ar.isDue(ctx, rules, h, now, &entry); err != nil {
				return nil, counts, err
			}
		}
		if isDue && held[h.Task] {
			counts.held++
			isDue = false
		}
		f.add(h.Task, entry, isDue)
	}
	due, err = f.due(func(id events.TaskID) (bool, error) { return ar.exists(ctx, id) })
	counts.withFamily = len(f.entries) - len(due)
	return due, counts, err
}

// addLive adds the tasks that are not archived.
func (ar *archiver) addLive(f *families) {
	for h := range ar.cfg.Lists.OpenHeads() {
		f.add(h.Task, dueHead{parent: h.Parent}, false)
	}
	if ar.cfg.Lists.Complete() {
		for h := range ar.cfg.Lists.Heads(false, time.Time{}) {
			f.add(h.Task, dueHead{parent: h.Parent}, false)
		}
		return
	}
	ar.lock()
	defer ar.unlock()
	for id, line := range ar.engine.listed.lines {
		if !line.Archived {
			f.add(id, dueHead{parent: line.Parent}, false)
		}
	}
}

// kept counts tasks that are due but stay.
type kept struct{ held, withFamily int }

// isDue reports whether a task is due by its rule, and completes its entry. The caller knows that it is due by the shortest times.
func (ar *archiver) isDue(ctx context.Context, rules retention.Rules, h events.Head, now time.Time, entry *dueHead) (bool, error) {
	keep := rules.Default
	if len(rules.Rules) > 0 {
		line, err := ar.lineFor(ctx, h.Task)
		if absent(err) || unreadableHistory(err) {
			return false, nil // it was removed meanwhile; or a rule may keep it
		}
		if err != nil {
			return false, err
		}
		var rule int
		keep, rule = rules.For(line.Name, line.Labels)
		entry.rule = int32(rule) //nolint:gosec // at most retention.MaxRules
	}
	at := h.At
	if h.Imported && expired(keep, h.State, at, now) {
		var err error
		if at, err = ar.importedAt(ctx, h); err != nil {
			return false, err
		}
	}
	entry.at = at.UnixMicro()
	return expired(keep, h.State, at, now), nil
}

// lineFor returns the line of an archived task with its labels: from the index of lists, or from its history.
func (ar *archiver) lineFor(ctx context.Context, id events.TaskID) (api.Summary, error) {
	if line, ok := ar.reader.relatives.knownLine(id); ok {
		return line, nil
	}
	return ar.reader.relatives.origin(ctx, id)
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
	// entries holds the due tasks.
	entries map[events.TaskID]dueHead
	// parentsOfKept holds the parents of the tasks that are not due.
	parentsOfKept map[events.TaskID]bool
}

func newFamilies() families {
	return families{entries: map[events.TaskID]dueHead{}, parentsOfKept: map[events.TaskID]bool{}}
}

func (f *families) add(id events.TaskID, entry dueHead, due bool) {
	switch {
	case due:
		f.entries[id] = entry
	case entry.parent != "":
		f.parentsOfKept[entry.parent] = true
	}
}

// root returns the topmost task that is reached from a due task by following parents that are due as well.
func (f *families) root(id events.TaskID) events.TaskID {
	for {
		above := f.entries[id].parent
		if _, due := f.entries[above]; !due {
			return id
		}
		id = above
	}
}

// due returns the tasks of the families in which all tasks are due, one family after the other, the oldest ids first.
func (f *families) due(exists func(events.TaskID) (bool, error)) ([]dueTask, error) {
	stays := map[events.TaskID]bool{} // by root
	for id := range f.parentsOfKept {
		if _, due := f.entries[id]; due {
			stays[f.root(id)] = true
		}
	}
	known := map[events.TaskID]bool{"": false}
	var tasks []dueTask
	for id, entry := range f.entries {
		root := f.root(id)
		above := f.entries[root].parent
		if _, asked := known[above]; !asked {
			there, err := exists(above)
			if err != nil {
				return nil, err
			}
			known[above] = there
		}
		if !stays[root] && !known[above] {
			tasks = append(tasks, dueTask{id: id, family: root, dueHead: entry})
		}
	}
	slices.SortFunc(tasks, func(a, b dueTask) int { return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.id, b.id)) })
	return tasks, nil
}
