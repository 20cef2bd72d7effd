package stats

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/orch-dev/orch/fault"
)

// Projection is the table of a running node. It is safe for concurrent use; the zero value is empty.
type Projection struct {
	mu        sync.Mutex
	table     Table
	positions positionSet
}

// Committed counts the calls of a commit at a position of the log. A position that was counted before counts no more. It
// never blocks for long: its lock is only held to count and to copy.
func (p *Projection) Committed(seq uint64, calls []Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.positions.add(seq) {
		return
	}
	for _, c := range calls {
		p.table.Add(c)
	}
}

// Counted reports whether the commit at a position was counted.
func (p *Projection) Counted(seq uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.positions.has(seq)
}

// Table returns a copy of what was counted.
func (p *Projection) Table() Table {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Clone()
}

// Tool returns the counter of one tool; the zero value when it was never called.
func (p *Projection) Tool(name string) Counter {
	p.mu.Lock()
	defer p.mu.Unlock()
	return one(p.table.Tools, name)
}

// Worker returns the counter of one worker.
func (p *Projection) Worker(name string) Counter {
	p.mu.Lock()
	defer p.mu.Unlock()
	return one(p.table.Workers, name)
}

func one(all map[string]*Counter, name string) Counter {
	if c := all[name]; c != nil {
		return c.clone()
	}
	return Counter{}
}

// missing is the first position that was not counted.
func (p *Projection) missing() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.positions.missing()
}

// fill says that there is nothing more to count up to a position.
func (p *Projection) fill(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.positions.fill(seq)
}

// snapshotVersion is that of the form of a snapshot. Others are passed over.
const snapshotVersion = 1

// snapshot is a projection in its stored form.
type snapshot struct {
	Version   int         `json:"v"`
	Positions positionSet `json:"marks"`
	// Past is a position of the archive: what was archived up to it is counted.
	Past  uint64 `json:"past"`
	Table Table  `json:"table"`
}

// encode returns the stored form, and the newest position in it.
func (p *Projection) encode(past uint64) (data []byte, newest uint64, err error) {
	p.mu.Lock()
	s := snapshot{Version: snapshotVersion, Positions: positionSet{p.positions.Base, slices.Clone(p.positions.Bits)}, Past: past, Table: p.table.Clone()}
	p.mu.Unlock()
	if data, err = json.Marshal(s); err != nil {
		return nil, 0, fault.Wrap(fault.Internal, err, "the statistics cannot be encoded")
	}
	return data, s.Positions.newest(), nil
}

// decode reads the stored form; false when it is of another version, or of a log that had more than last commits.
func decode(data []byte, last uint64) (snapshot, bool) {
	var s snapshot
	if json.Unmarshal(data, &s) != nil || s.Version != snapshotVersion || s.Positions.newest() > last {
		return snapshot{}, false
	}
	return s, true
}

// begin takes a snapshot over. Nothing was counted before.
func (p *Projection) begin(s snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table, p.positions = s.Table, s.Positions
}
