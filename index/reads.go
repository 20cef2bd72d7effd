package index

import (
	"iter"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/work"
)

// List returns the newest tasks that match a valid request, at most r.Limit, and whether there are more. They come after the task
// after, if it is not nil. dead decides for r.Dead.
func (x *Index) List(r api.ListRequest, after *api.Summary, dead Dead) (page []api.Summary, more bool) {
	x.lock()
	defer x.mu.Unlock()
	return x.queries.list(r, after, dead)
}

// Tree returns the tasks that have the same topmost parent as id, the oldest first, at most limit, and the number of the others.
func (x *Index) Tree(id events.TaskID, limit, depth int) (page []api.Summary, omitted int) {
	x.lock()
	defer x.mu.Unlock()
	return x.queries.tree(id, limit, depth)
}

// Find returns a task whose id begins with prefix, and the number of these tasks.
func (x *Index) Find(prefix string) (id events.TaskID, count int) {
	x.lock()
	defer x.mu.Unlock()
	return x.queries.find(prefix)
}

// Line returns the summary of a task; false if the index does not have it.
func (x *Index) Line(id events.TaskID) (api.Summary, bool) {
	x.lock()
	defer x.mu.Unlock()
	row, ok := x.table.row(id)
	if !ok {
		return api.Summary{}, false
	}
	return x.table.line(row), true
}

// Last returns the newest task without a parent that a requestor has submitted with a command; if requestor is empty, the newest
// one of all.
func (x *Index) Last(requestor string) (events.TaskID, bool) {
	x.lock()
	defer x.mu.Unlock()
	return x.queries.last(requestor)
}

// Queue returns the open tasks that match a valid request, at most limit: the most urgent first, then the oldest. They come after
// the task after, if it is not nil. The fields about agents match every task. It also counts the queue at a time.
func (x *Index) Queue(r api.QueueRequest, after *api.Summary, limit int, now time.Time) ([]api.Summary, api.QueueStats) {
	x.lock()
	defer x.mu.Unlock()
	return x.queries.queue(r, after, limit), x.queries.queueStats(r, now)
}

// Finished returns the number of finished tasks.
func (x *Index) Finished() int {
	x.lock()
	defer x.mu.Unlock()
	return x.table.finished()
}

// Unarchived returns the number of finished tasks that are not archived.
func (x *Index) Unarchived() int {
	x.lock()
	defer x.mu.Unlock()
	return x.table.finished() - x.table.archived
}

// Open returns the number of open tasks.
func (x *Index) Open() int {
	x.lock()
	defer x.mu.Unlock()
	n := -x.table.imported
	for code := range stateByCode {
		if queueStatuses[code] != "" {
			n += x.table.states[code]
		}
	}
	return n
}

// OpenHeads yields what the index has of the heads of the open tasks. Other requests are answered meanwhile: a task that is open all
// the time is yielded once.
func (x *Index) OpenHeads() iter.Seq[events.Head] { return eachOpen(x, x.queries.head) }

// OpenLines is OpenHeads for the summaries.
func (x *Index) OpenLines() iter.Seq[api.Summary] { return eachOpen(x, x.queries.line) }

// eachOpen yields what read returns for the rows of the open tasks.
func eachOpen[T any](x *Index, read func(row uint32) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for priority := range work.Priorities {
			at := key{created: -1 << 63}
			for more := true; more; {
				var part []T
				var rows []uint32
				x.lock()
				rows, at, more = x.queries.openPart(priority, at)
				for _, row := range rows {
					part = append(part, read(row))
				}
				x.mu.Unlock()
				for _, one := range part {
					if !yield(one) {
						return
					}
				}
			}
		}
	}
}

// Heads yields what the index has of the heads of the finished tasks, archived or not, the oldest first. With before, it yields
// only those that were created and changed last before that time, and does not look at newer tasks. Other requests are answered
// meanwhile.
func (x *Index) Heads(archived bool, before time.Time) iter.Seq[events.Head] {
	limit := int64(1<<63 - 1)
	if !before.IsZero() {
		limit = microsFrom(before)
	}
	return func(yield func(events.Head) bool) {
		at := key{created: -1 << 63}
		for more := true; more; {
			var part []events.Head
			x.lock()
			part, at, more = x.queries.heads(archived, at, limit)
			x.mu.Unlock()
			for _, h := range part {
				if !yield(h) {
					return
				}
			}
		}
	}
}
