package index

import (
	"sync"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// maxPending is how many changes wait for a query until they are applied without one.
const maxPending = 1024

// change is a change of a task: its summary after the commit at a position, or that it was archived.
type change struct {
	line     api.Summary
	seq      uint64
	archived bool
}

// maxRepeated is the number of changes from which those are dropped that a later one replaces.
const maxRepeated = 4 * maxPending

// pending holds the changes that were not applied yet: at most twice as many as tasks that have changed, and usually few.
type pending struct {
	mu      sync.Mutex
	changes []change
	// limit is maxRepeated, or more after most changes were of different tasks.
	limit int
	// spare is the memory of changes that were applied.
	spare []change
}

// add adds a change, and reports whether there are enough to apply them.
func (p *pending) add(c *change) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.changes) >= max(p.limit, maxRepeated) {
		p.changes = newestOfEach(p.changes)
		p.limit = 2 * len(p.changes)
	}
	p.changes = append(p.changes, *c)
	return len(p.changes) >= maxPending
}

// full reports whether there are enough changes to apply them.
func (p *pending) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.changes) >= maxPending
}

// take removes and returns the changes. They are valid until free.
func (p *pending) take() []change {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := p.changes
	p.changes, p.spare, p.limit = p.spare, nil, 0
	return changes
}

// free returns the memory of changes that were taken.
func (p *pending) free(changes []change) {
	if cap(changes) > maxRepeated {
		return
	}
	clear(changes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare = changes[:0]
}

// newestOfEach drops, in place, the summaries that a later one of the same task replaces.
func newestOfEach(changes []change) []change {
	newest := make(map[events.TaskID]int, len(changes))
	for i := range changes {
		if !changes[i].archived {
			newest[changes[i].line.ID] = i
		}
	}
	kept := changes[:0]
	for i := range changes {
		if c := &changes[i]; c.archived || newest[c.line.ID] == i {
			kept = append(kept, *c)
		}
	}
	return kept
}
