package orchestrator

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/statemachine"
)

// Lists is an index of the summaries of all tasks, derived from the log. It has its own lock: Put and MarkArchived are called with
// mu held and must not wait for a query.
type Lists interface {
	// OnlyOpen reports whether the index is one of open tasks alone, which is never complete.
	OnlyOpen() bool
	// Put sets the summary of a task after its commit at a position. MarkArchived marks a task as archived.
	Put(line api.Summary, seq uint64)
	MarkArchived(id events.TaskID)
	// Add sets the summary of a finished task unless the index has a newer one. Has reports whether it has the summary that a
	// commit at a time has left, or a newer one.
	Add(line api.Summary, seq uint64)
	Has(id events.TaskID, at time.Time) bool
	// Lacks reports whether a complete index does not have a task. It does not wait: it returns false if it cannot tell at once.
	Lacks(id events.TaskID) bool
	// Remove removes tasks before the log removes them.
	Remove(ids []events.TaskID) error
	// Load reads what an earlier node has saved, and returns the positions of the archive and the live log up to which that is
	// complete. Save saves all up to such positions.
	Load(lastPast, lastLive uint64) (past, live uint64)
	Save(past, live uint64) error
	// SetComplete says that the index contains all tasks, and Complete reports it.
	SetComplete()
	Complete() bool

	// List returns the tasks that match a request, the newest first, after the task after, and whether there are more.
	List(r api.ListRequest, after *api.Summary, dead func(line api.Summary, known func(events.TaskID) bool) bool) (page []api.Summary, more bool)
	// Tree returns the oldest tasks that have the same topmost parent as id, and counts the others.
	Tree(id events.TaskID, limit, depth int) (page []api.Summary, omitted int)
	// Find returns a task whose id begins with prefix, and counts these tasks.
	Find(prefix string) (id events.TaskID, count int)
	// Line returns the summary of a task.
	Line(id events.TaskID) (api.Summary, bool)
	// Last returns the newest task without a parent that a requestor has submitted with a command, or the newest one of all.
	Last(requestor string) (events.TaskID, bool)
	// Queue returns the open tasks that match a request, except for its fields about agents: the most urgent first, then the
	// oldest, after the task after. It also counts the queue at a time.
	Queue(r api.QueueRequest, after *api.Summary, limit int, now time.Time) ([]api.Summary, api.QueueStats)
	// Open, Finished and Unarchived count the tasks, Unarchived those that have finished and are not archived. OpenHeads and
	// OpenLines yield the open tasks, each that is open all the time once. Heads yields the heads of the finished tasks, of the
	// archived ones or of the others; with before, only of those that were created and changed last before that time.
	Open() int
	Finished() int
	Unarchived() int
	OpenHeads() iter.Seq[events.Head]
	OpenLines() iter.Seq[api.Summary]
	Heads(archived bool, before time.Time) iter.Seq[events.Head]
}

// lister brings Lists up to date after a start, and saves it.
type lister struct {
	*core

	engine *engine
	reader *reader
	// adding is held while a task is read and added to the index, or removed from it.
	adding ioLock
	// past is a position of the archive. The index contains everything before it.
	past atomic.Uint64
}

// A list index is saved every listsEvery, and its completion is retried after listsEvery.
const listsEvery = 30 * time.Second

// indexedLists returns the index of lists if it is complete, else nil.
func (rd *reader) indexedLists() Lists {
	if !rd.cfg.Lists.Complete() {
		return nil
	}
	return rd.cfg.Lists
}

// unreadable returns lines for the tasks whose histories cannot be read, by id.
func (rd *reader) unreadable() map[events.TaskID]api.Summary {
	rd.lock()
	defer rd.unlock()
	var lines map[events.TaskID]api.Summary
	for id, u := range rd.engine.concurrencyKeys.unread {
		if !unreadableHistory(u.err) {
			continue
		}
		if lines == nil {
			lines = map[events.TaskID]api.Summary{}
		}
		lines[id] = unreadableLine(id, u.err)
	}
	return lines
}

// unreadableLine returns the line of a task about which nothing else is known.
func unreadableLine(id events.TaskID, err *fault.Error) api.Summary {
	return api.Summary{ID: id, Unreadable: err.Code, Reason: err.Message, CreatedAt: id.Time(), UpdatedAt: id.Time()}
}

// unlisted returns those of the lines of unreadable tasks that the index does not contain, in no particular order.
func unlisted(lists Lists, unreadable map[events.TaskID]api.Summary) []api.Summary {
	var lines []api.Summary
	for id, line := range unreadable {
		if _, count := lists.Find(string(id)); count == 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// withUnreadable marks the unreadable tasks of a page, and adds those that the index does not contain.
func (rd *reader) withUnreadable(lists Lists, r api.ListRequest, after *api.Summary, page []api.Summary, more bool) ([]api.Summary, bool) {
	unreadable := rd.unreadable()
	for i := range page {
		if u, ok := unreadable[page[i].ID]; ok {
			page[i].Unreadable, page[i].Reason = u.Unreadable, u.Reason
		}
	}
	for _, line := range unlisted(lists, unreadable) {
		if (after == nil || newestFirst(line, *after) > 0) && !r.Dead && matchesLine(r, line) && matchesComplete(r, line) {
			page = append(page, line)
		}
	}
	slices.SortFunc(page, newestFirst)
	return page[:min(len(page), r.Limit)], more || len(page) > r.Limit
}

// listLoop completes the index and saves it from time to time and at the end.
func (li *lister) listLoop(ctx context.Context) {
	if li.cfg.Lists.OnlyOpen() {
		return
	}
	tick := time.NewTicker(listsEvery)
	defer tick.Stop()
	for complete := false; ; {
		if !complete {
			err := li.complete(ctx)
			complete = err == nil
			if err != nil && ctx.Err() == nil {
				li.cfg.Logger.WarnContext(ctx, "lists_incomplete", slog.Any("error", err))
			}
		}
		if err := li.save(); err != nil {
			li.cfg.Logger.WarnContext(ctx, "lists_not_saved", slog.Any("error", err))
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// positioned is a log whose archive has positions.
type positioned interface {
	ArchivedHeadsAfter(ctx context.Context, position uint64) iter.Seq2[events.ArchivedHead, error]
	// ReadArchived is Read from the first revision, for a history that most likely still is where its head was.
	ReadArchived(ctx context.Context, head events.ArchivedHead) iter.Seq2[events.Stored, error]
	Positions(ctx context.Context) (past, live uint64, err error)
}

// save saves the index. Its positions are those up to which it certainly contains everything.
func (li *lister) save() error {
	return li.cfg.Lists.Save(li.past.Load(), li.log.processedUpTo())
}

// noteArchived records that all tasks in the archive are marked in the index. It is called while no task is being archived.
func (li *lister) noteArchived(ctx context.Context) {
	li.adding.Lock() // no task is being imported either
	defer li.adding.Unlock()
	log, ok := li.log.Log.(positioned)
	if !ok {
		return
	}
	if past, _, err := log.Positions(ctx); err == nil {
		li.past.Store(past)
	}
}

// complete reads what the saved index lacks.
func (li *lister) complete(ctx context.Context) error {
	live, archived, err := li.missing(ctx)
	if err != nil {
		return err
	}
	var pace pause.Share
	for i, heads := range []iter.Seq2[events.ArchivedHead, error]{withoutPositions(live), archived} {
		for h, err := range heads {
			if err == nil && (statemachine.State(h.State).Terminal() || h.Imported) {
				err = li.addHead(ctx, h, i == 1) // the second sequence
			}
			if err != nil {
				return err
			}
			if err := pace.Yield(ctx); err != nil {
				return err
			}
		}
	}
	li.restoreRemoval(ctx)
	li.cfg.Lists.SetComplete()
	li.lock()
	defer li.unlock()
	li.engine.listed.leaveToIndex()
	return nil
}

// missing returns the heads of the live log and of the archive that the saved index may lack.
func (li *lister) missing(ctx context.Context) (live iter.Seq2[events.Head, error], archived iter.Seq2[events.ArchivedHead, error], err error) {
	log, ok := li.log.Log.(positioned)
	if !ok {
		li.cfg.Lists.Load(0, 0)
		return li.cfg.Log.Heads(ctx), withoutPositions(li.cfg.Log.ArchivedHeads(ctx)), nil
	}
	lastPast, lastLive, err := log.Positions(ctx)
	if err != nil {
		return nil, nil, err
	}
	past, position := li.cfg.Lists.Load(lastPast, lastLive)
	li.past.CompareAndSwap(0, lastPast)
	if li.cfg.Indexes == nil {
		return li.cfg.Log.Heads(ctx), log.ArchivedHeadsAfter(ctx, past), nil
	}
	return li.cfg.Indexes.HeadsAfter(ctx, position), log.ArchivedHeadsAfter(ctx, past), nil
}

// withoutPositions returns heads without positions in the archive.
func withoutPositions(heads iter.Seq2[events.Head, error]) iter.Seq2[events.ArchivedHead, error] {
	return func(yield func(events.ArchivedHead, error) bool) {
		for h, err := range heads {
			if !yield(events.ArchivedHead{Head: h}, err) {
				return
			}
		}
	}
}

// history returns the history of a head.
func (li *lister) history(ctx context.Context, h events.ArchivedHead) iter.Seq2[events.Stored, error] {
	if log, ok := li.log.Log.(positioned); ok && h.Position > 0 {
		return log.ReadArchived(ctx, h)
	}
	return li.cfg.Log.Read(ctx, h.Task, 1)
}

// addHead adds a finished task to the index. A task whose history is damaged is listed with what its head contains.
func (li *lister) addHead(ctx context.Context, h events.ArchivedHead, archived bool) error {
	li.adding.Lock()
	defer li.adding.Unlock()
	if !li.cfg.Lists.Has(h.Task, h.At) {
		line, err := li.reader.complete(lineOf(h.Head), li.history(ctx, h))
		if absent(err) {
			return nil // it was removed meanwhile
		}
		if err != nil && !unreadableHistory(err) {
			return err
		}
		line.Archived = archived
		li.cfg.Lists.Add(line, h.Seq)
	}
	if archived {
		li.cfg.Lists.MarkArchived(h.Task)
	}
	return nil
}

// removalID is the key of the tasks that are being removed in the checkpoint store, under controlTask.
const removalID = "removal"

// remove removes tasks from the index and the log. Tasks that the log has kept return to the index, also after a restart.
func (li *lister) remove(ctx context.Context, ids []events.TaskID) error {
	li.adding.Lock()
	defer li.adding.Unlock()
	if err := saveRecord(ctx, li.cfg.Checkpoints, removalID, ids); err != nil {
		return err
	}
	err := li.cfg.Lists.Remove(ids)
	if err == nil {
		err = li.cfg.Log.Remove(ctx, ids)
	}
	if err != nil {
		li.putBack(context.WithoutCancel(ctx), ids)
		return err
	}
	if err := saveRecord(ctx, li.cfg.Checkpoints, removalID, []events.TaskID{}); err != nil {
		li.cfg.Logger.WarnContext(ctx, "removal_end_not_noted", slog.Any("error", err)) // a restart finds that nothing is left to do
	}
	return nil
}

// restoreRemoval returns the tasks to the index that an interrupted removal has removed from there and not from the log.
func (li *lister) restoreRemoval(ctx context.Context) {
	var ids []events.TaskID
	if err := loadRecord(ctx, li.cfg.Checkpoints, removalID, &ids); err != nil {
		li.cfg.Logger.WarnContext(ctx, "removal_unknown", slog.Any("error", err))
	}
	li.putBack(ctx, ids)
}

// putBack puts archived tasks into the index that the log still has.
func (li *lister) putBack(ctx context.Context, ids []events.TaskID) {
	for _, id := range ids {
		if task, newest, err := li.engine.fold(ctx, id); err == nil {
			line := lineOfTask(task)
			line.Archived, line.Imported = newest.Archived, newest.Import != nil
			li.cfg.Lists.Add(line, newest.Seq)
		}
	}
}
