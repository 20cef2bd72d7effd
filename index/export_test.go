package index

// Pending returns the number of changes that were not applied yet.
func (x *Index) Pending() int {
	x.pending.mu.Lock()
	defer x.pending.mu.Unlock()
	return len(x.pending.changes)
}

// Locked calls fn while no query runs and no change is applied.
func (x *Index) Locked(fn func()) {
	x.lock()
	defer x.mu.Unlock()
	fn()
}

// Column is a column of a chunk of its own.
type Column struct {
	column
	chunk *chunk
}

// NewColumn returns a column of an empty chunk.
func NewColumn() *Column {
	x := &Column{chunk: &chunk{arena: new(arena)}}
	x.reset(x.chunk.arena, 0)
	return x
}

// Beside returns a column of another chunk in the same memory.
func (x *Column) Beside() *Column {
	beside := NewColumn()
	beside.chunk.arena = x.chunk.arena
	return beside
}

// Set sets the number of a row, at most the first that the chunk does not have yet.
func (x *Column) Set(row int, n int64) {
	x.chunk.rows = max(x.chunk.rows, uint32(row)+1)
	x.chunk.live = x.chunk.rows
	x.chunk.set(&x.column, uint32(row), n)
}

// At returns the number of a row.
func (x *Column) At(row int) int64 { return x.at(uint32(row)) }

// Width returns the number of bytes for a row.
func (x *Column) Width() int { return int(x.width) }

// Clear removes all rows.
func (x *Column) Clear() {
	x.chunk.rows, x.chunk.live = 0, 0
	x.reset(x.chunk.arena, 0)
}

// IDs is a table of rows that have ids alone.
type IDs struct{ rows *rows }

// NewIDs returns an empty table.
func NewIDs() IDs { return IDs{newRows()} }

// Add adds a row and returns its number.
func (x IDs) Add(hi, lo uint64) uint32 { return x.rows.add(rowID{hi, lo}) }

// Remove removes a row.
func (x IDs) Remove(row uint32) { x.rows.remove(row) }

// Find returns the row with an id.
func (x IDs) Find(hi, lo uint64) (uint32, bool) { return x.rows.find(rowID{hi, lo}) }

// Load returns the part of the places of the hash table that are taken, also by rows that were removed.
func (x IDs) Load() float64 { return float64(x.rows.ids.taken) / float64(len(x.rows.ids.places)) }

// Places returns the size of the hash table.
func (x IDs) Places() int { return len(x.rows.ids.places) }

// Place returns the place for an id, and whether its hash looks like the place of a removed row.
func (x IDs) Place(hi, lo uint64) (at uint64, likeGone bool) {
	hash, t := rowID{hi, lo}.hash(), &x.rows.ids
	return t.home(hash), t.entry(0, hash)&^t.rowMask == t.gone
}

// Width returns the number of bytes for the first half of an id in the first chunk.
func (x IDs) Width() int { return int(x.rows.chunks[0].idHigh.width) }
