// Package index keeps a line of every task, for lists that cost the same however many tasks a store has. It is derived from the
// log: an owner feeds it what the log has acknowledged, and a file beside the log spares the next start to read all histories.
// Losing the file loses nothing.
//
// The parts of an Index: pending holds the changes that were not applied yet, table the summaries, queries answers requests from
// them, journal collects what is not in the file, and saver writes and reads the file. contents has the lock of the first four.
package index

import (
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// Index holds the summaries of tasks in 30 to 50 bytes each, beside texts, which it holds once. All methods are safe for
// concurrent use. Changes never wait for a query or for the file; every query sees the changes before it.
type Index struct {
	*contents
	*saver

	// complete is set when all tasks of the log are in the index.
	complete atomic.Bool
}

// New returns an empty index. With a path, Load reads the index from that file and Save writes it. log identifies the log: a file
// with another identity is ignored.
func New(path, log string) *Index {
	x := &Index{contents: &contents{table: newTable()}}
	x.queries = queries{x.table, map[string][]uint8{}}
	x.saver = &saver{contents: x.contents, complete: &x.complete}
	if path != "" {
		x.file = &file{path: path, log: log}
		x.journal = journal{on: true, loading: true, archived: map[rowID]bool{}}
	}
	return x
}

// NewOpen returns an index of open tasks alone. It is never complete.
func NewOpen() *Index {
	x := New("", "")
	x.onlyOpen = true
	return x
}

// OnlyOpen reports whether the index contains open tasks alone.
func (x *Index) OnlyOpen() bool { return x.onlyOpen }

// Complete reports whether all tasks of the log are in the index.
func (x *Index) Complete() bool { return x.complete.Load() }

// SetComplete says that all tasks of the log are in the index.
func (x *Index) SetComplete() { x.complete.Store(true) }

// Put sets the summary of a task after the commit at position seq. It does not block.
func (x *Index) Put(line api.Summary, seq uint64) { x.change(&change{line: line, seq: seq}) }

// MarkArchived marks a task as archived. It does not block.
func (x *Index) MarkArchived(id events.TaskID) {
	x.change(&change{line: api.Summary{ID: id}, archived: true})
}

// Add sets the summary of a finished task that was read from the log, unless the index has a newer one.
func (x *Index) Add(line api.Summary, seq uint64) {
	x.lock()
	defer x.mu.Unlock()
	if row, ok := x.table.row(line.ID); ok {
		c, i := x.table.rows.at(row)
		if c.updatedAt(i) >= line.UpdatedAt.UnixMicro() {
			return
		}
	}
	x.put(&line, seq)
}

// Has reports whether the index has the line of a finished task that a commit at a time has left, or a newer one.
func (x *Index) Has(id events.TaskID, at time.Time) bool {
	x.lock()
	defer x.mu.Unlock()
	row, ok := x.table.row(id)
	if !ok {
		return false
	}
	c, i := x.table.rows.at(row)
	return c.ended(i) && c.updatedAt(i) >= at.UnixMicro()
}

// Lacks reports whether the index is complete and does not have a task. It returns false if another request holds the index.
func (x *Index) Lacks(id events.TaskID) bool {
	if !x.complete.Load() || !x.mu.TryLock() {
		return false
	}
	defer x.mu.Unlock()
	x.applyChanges()
	_, ok := x.table.row(id)
	return !ok
}
