package index

import (
	"sync"
	"sync/atomic"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// contents is what an index contains, with its lock.
type contents struct {
	pending pending
	// applying is set while a goroutine applies the pending changes.
	applying atomic.Bool
	// onlyOpen is set if tasks that have finished are forgotten.
	onlyOpen bool

	mu      sync.Mutex // guards the fields below
	table   *table
	queries queries
	journal journal
}

func (x *contents) change(c *change) {
	if x.pending.add(c) && x.applying.CompareAndSwap(false, true) {
		go x.applyPending()
	}
}

// applyPending applies the pending changes, also those that come while it ends and start no other goroutine.
func (x *contents) applyPending() {
	for mine := true; mine; {
		x.lock()
		x.mu.Unlock()
		x.applying.Store(false)
		mine = x.pending.full() && x.applying.CompareAndSwap(false, true)
	}
}

// lock locks mu and applies the pending changes.
func (x *contents) lock() {
	x.mu.Lock()
	x.applyChanges()
}

// applyChanges applies the pending changes. mu must be held.
func (x *contents) applyChanges() {
	changes := x.pending.take()
	for i := range changes {
		x.apply(&changes[i])
	}
	x.pending.free(changes)
}

func (x *contents) apply(c *change) {
	switch {
	case c.archived:
		x.markArchived(c.line.ID)
	case x.onlyOpen && (c.line.State.Terminal() || c.line.Imported):
		if row, ok := x.table.row(c.line.ID); ok {
			x.table.remove(row)
		}
	default:
		x.put(&c.line, c.seq)
	}
}

func (x *contents) put(line *api.Summary, seq uint64) {
	if row, ok := x.table.put(line); ok {
		x.journal.changed(x.table, row, seq)
	}
}

func (x *contents) markArchived(id events.TaskID) {
	if n, ok := parseID(id); ok {
		x.journal.markArchived(x.table, n)
	}
}
