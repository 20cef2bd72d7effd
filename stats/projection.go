package stats

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Projection is the table of a running node. It is safe for concurrent use; the zero value is empty.
type Projection struct {
	mu        sync.Mutex
	table     Table
	book      costs.Book
	positions positionSet
}

// Committed counts the calls of the commit at a position of the log, and what it has cost. It ignores a position that was counted
// before. It never blocks for long: p.mu is only held to count and to copy.
func (p *Projection) Committed(seq uint64, calls []Call, paid []costs.Cost) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.positions.add(seq) {
		return
	}
	for _, c := range calls {
		p.table.Add(c)
	}
	for _, c := range paid {
		p.book.Add(c)
	}
}

// Costs returns what requests to models cost.
func (p *Projection) Costs(q costs.Query) []costs.Row {
	p.mu.Lock()
	book := p.book.Snapshot()
	p.mu.Unlock()
	return book.Rows(q)
}

// Spenders returns the identities for which something was spent of a budget in the period of a time.
func (p *Projection) Spenders(b costs.Budget, at time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.book.Spenders(b, at)
}

// WatchBudgets keeps accounts for these budgets alone.
func (p *Projection) WatchBudgets(budgets []costs.Budget, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.book.Watch(budgets, now)
}

// watchesBudgets reports whether accounts are kept for budgets.
func (p *Projection) watchesBudgets() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.book.Watches()
}

// Spent returns what was spent of a budget in the period of a time, with answers that were lost.
func (p *Projection) Spent(b costs.Budget, identity string, at time.Time) events.Spent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.book.Spent(b, identity, at)
}

// Counted reports whether the commit at a position was counted.
func (p *Projection) Counted(seq uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.positions.has(seq)
}

// Table returns a copy of the table.
func (p *Projection) Table() Table {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Clone()
}

// Tool returns the counter of a tool; the zero value if it was never called.
func (p *Projection) Tool(name string) Counter {
	p.mu.Lock()
	defer p.mu.Unlock()
	return counterOf(p.table.Tools, name)
}

// Worker returns the counter of a worker.
func (p *Projection) Worker(name string) Counter {
	p.mu.Lock()
	defer p.mu.Unlock()
	return counterOf(p.table.Workers, name)
}

func counterOf(all map[string]*Counter, name string) Counter {
	if c := all[name]; c != nil {
		return c.clone()
	}
	return Counter{}
}

// missing returns the first position that was not counted.
func (p *Projection) missing() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.positions.missing()
}

// fill marks all positions up to seq as counted.
func (p *Projection) fill(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.positions.fill(seq)
}

// snapshotVersion is the format version of a snapshot. Snapshots of other versions are ignored.
const snapshotVersion = 1

// snapshot is a projection in its stored form.
type snapshot struct {
	Version   int         `json:"v"`
	Positions positionSet `json:"marks"`
	// Past is the position of the archive up to which histories were counted.
	Past  uint64 `json:"past"`
	Table Table  `json:"table"`
	// Costs is nil in snapshots of versions that asked no models.
	Costs *costs.Snapshot `json:"costs,omitempty"`
}

// encode returns the encoded snapshot and its newest position.
func (p *Projection) encode(past uint64) (data []byte, newest uint64, err error) {
	p.mu.Lock()
	s := snapshot{Version: snapshotVersion, Positions: positionSet{p.positions.Base, slices.Clone(p.positions.Bits)}, Past: past, Table: p.table.Clone()}
	s.Costs = p.book.Snapshot()
	p.mu.Unlock()
	if data, err = json.Marshal(s); err != nil {
		return nil, 0, fault.Wrap(fault.Internal, err, "the statistics cannot be encoded")
	}
	return data, s.Positions.newest(), nil
}

// decode decodes a snapshot. It returns false for another version. It also returns false for a snapshot with positions
// after last, because that snapshot belongs to another log.
func decode(data []byte, last uint64) (snapshot, bool) {
	var s snapshot
	if json.Unmarshal(data, &s) != nil || s.Version != snapshotVersion || s.Positions.newest() > last {
		return snapshot{}, false
	}
	return s, true
}

// restore loads a snapshot into an empty projection.
func (p *Projection) restore(s snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table, p.book, p.positions = s.Table, s.Costs.Book(), s.Positions
}
