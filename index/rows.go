package index

import (
	"encoding/binary"

	"github.com/oklog/ulid/v2"

	"github.com/orch-dev/orch/events"
)

// rowID is a task id as two numbers that sort like the id.
type rowID struct{ hi, lo uint64 }

// parseID returns the number of a task id; false if the id is not in canonical form.
func parseID(id events.TaskID) (rowID, bool) {
	if len(id) != len(events.TaskPrefix)+ulid.EncodedSize || id[:len(events.TaskPrefix)] != events.TaskPrefix {
		return rowID{}, false
	}
	parsed, err := ulid.ParseStrict(string(id[len(events.TaskPrefix):]))
	return rowIDOf(parsed), err == nil
}

func rowIDOf(u ulid.ULID) rowID {
	return rowID{binary.BigEndian.Uint64(u[:8]), binary.BigEndian.Uint64(u[8:])}
}

func (r rowID) bytes() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.hi), r.lo)
}

func (r rowID) task() events.TaskID {
	return events.TaskID(events.TaskPrefix + ulid.ULID(r.bytes()).String())
}

func (r rowID) less(b rowID) bool { return r.hi < b.hi || r.hi == b.hi && r.lo < b.lo }

// microsOf returns the time in the first half of an id, in microseconds.
func microsOf(hi uint64) int64 { return int64(hi>>16) * 1000 }

const (
	chunkBits = 12
	chunkRows = 1 << chunkBits
)

// chunk holds the columns of some rows.
type chunk struct {
	arena *arena
	// rows is the number of rows that the chunk has or has had, live of those that it has.
	rows, live uint32
	// idHigh and idLow are the ids. created is the creation after the time in the id, updated the last change after the creation, in
	// microseconds.
	idHigh, created, updated column
	idLow                    *[chunkRows]uint64
	// These are numbers of texts. why is the block and the reason, origin the priority and the command (see joined).
	name, requestor, labels, parent, session, why, origin column
	state, flags                                          *[chunkRows]uint8
	// states counts the rows by the code of their state.
	states [maxStates]int32
	// All ids that the chunk has ever had are from low to high.
	low, high rowID
}

func newChunk(a *arena) *chunk {
	c := &chunk{arena: a, idLow: (*[chunkRows]uint64)(numbersIn[uint64](a.get(8))), state: (*[chunkRows]uint8)(a.get(1)), flags: (*[chunkRows]uint8)(a.get(1))}
	c.reset()
	return c
}

// textColumns is the number of columns with numbers of texts.
const textColumns = 7

// textColumns returns the columns with numbers of texts, in the order of the file.
func (c *chunk) textColumns() [textColumns]*column {
	return [...]*column{&c.name, &c.requestor, &c.labels, &c.parent, &c.session, &c.why, &c.origin}
}

// reset makes all columns empty.
func (c *chunk) reset() {
	for _, column := range c.textColumns() {
		column.reset(c.arena, 0)
	}
	for _, column := range []*column{&c.idHigh, &c.created, &c.updated} {
		column.reset(c.arena, 0)
	}
	c.low, c.high = rowID{}, rowID{}
}

// set sets the number of a row in a column of the chunk.
func (c *chunk) set(to *column, i uint32, n int64) {
	switch {
	case to.fits(n):
	case c.live == 1:
		to.reset(c.arena, n)
	default:
		to.widen(c.arena, c.rows, i, n)
	}
	to.put(i, n)
}

func (c *chunk) setText(to *column, i, text uint32) { c.set(to, i, int64(text)) }

func (c *chunk) id(i uint32) rowID { return rowID{uint64(c.idHigh.at(i)), c.idLow[i]} } //nolint:gosec // modulo 2^64

// createdAt returns the creation of a row in microseconds.
func (c *chunk) createdAt(i uint32) int64 { return microsOf(uint64(c.idHigh.at(i))) + c.created.at(i) } //nolint:gosec // modulo 2^64

// updatedAt returns the last change of a row in microseconds.
func (c *chunk) updatedAt(i uint32) int64 { return c.createdAt(i) + c.updated.at(i) }

// setCreated must precede setUpdated.
func (c *chunk) setCreated(i uint32, micros int64) {
	c.set(&c.created, i, micros-microsOf(uint64(c.idHigh.at(i)))) //nolint:gosec // modulo 2^64
}

func (c *chunk) setUpdated(i uint32, micros int64) { c.set(&c.updated, i, micros-c.createdAt(i)) }

// maxStates is more than the number of states.
const maxStates = 16

// has reports whether the chunk has a row in one of some states, given as bits.
func (c *chunk) has(states uint16) bool {
	for code, n := range c.states {
		if n > 0 && states>>code&1 != 0 {
			return true
		}
	}
	return false
}

// addID records the id of a new row.
func (c *chunk) addID(i uint32, id rowID) {
	c.rows = max(c.rows, i+1)
	c.live++
	if c.high == (rowID{}) || id.less(c.low) {
		c.low = id
	}
	if c.high.less(id) {
		c.high = id
	}
	c.set(&c.idHigh, i, int64(id.hi)) //nolint:gosec // modulo 2^64
	c.idLow[i], c.flags[i], c.state[i] = id.lo, 0, 0
}

// removeID makes a row free. The columns of a chunk that becomes empty take no memory.
func (c *chunk) removeID(i uint32) {
	c.flags[i], c.state[i] = flagFree, 0
	if c.live--; c.live > 0 {
		return
	}
	c.reset()
}

// idsIn counts the ids from low to high, and returns one of them.
func (c *chunk) idsIn(low, high rowID) (id rowID, count int) {
	if high.less(c.low) || c.high.less(low) {
		return rowID{}, 0
	}
	if !c.low.less(low) && !high.less(c.high) {
		return c.anyID(), int(c.live)
	}
	for i := range c.rows {
		if at := c.id(i); c.flags[i]&flagFree == 0 && !at.less(low) && !high.less(at) {
			id = at
			count++
		}
	}
	return id, count
}

// anyID returns the id of a row; zero if the chunk is empty.
func (c *chunk) anyID() rowID {
	for i := range c.rows {
		if c.flags[i]&flagFree == 0 {
			return c.id(i)
		}
	}
	return rowID{}
}

// Flags of a row.
const (
	flagPaused uint8 = 1 << iota
	flagArchived
	flagInternal
	// flagUnsaved marks a row of a finished task that is not in the file.
	flagUnsaved
	// flagNewer marks a row that was changed while the file was being read, so the file has nothing newer.
	flagNewer
	// flagImported marks an imported task, which never changes, whatever its state.
	flagImported
	// flagFree marks a row that was removed.
	flagFree
)

// outOfQueue are the flags of tasks that the queue does not contain.
const outOfQueue = flagInternal | flagImported

// ended reports whether the task of a row does not change any more.
func (c *chunk) ended(i uint32) bool { return isFinished(c.state[i]) || c.flags[i]&flagImported != 0 }

// savedFlags are the flags that the file contains.
const savedFlags = flagPaused | flagArchived | flagInternal | flagImported

// rows is a table of rows with stable numbers.
type rows struct {
	arena  *arena
	chunks []*chunk
	// used is the number of rows in chunks, free lists those of them that were removed.
	used uint32
	free []uint32
	ids  idTable
}

func newRows() *rows {
	r := &rows{arena: new(arena)}
	r.ids.rows = r
	return r
}

// at returns the chunk and the place of a row.
func (r *rows) at(row uint32) (*chunk, uint32) {
	return r.chunks[row>>chunkBits], row & (chunkRows - 1)
}

func (r *rows) idOf(row uint32) rowID {
	c, i := r.at(row)
	return c.id(i)
}

// find returns the row with an id.
func (r *rows) find(id rowID) (uint32, bool) { return r.ids.find(id) }

// add adds an empty row.
func (r *rows) add(id rowID) uint32 {
	r.ids.reserve()
	row := r.used
	if n := len(r.free); n > 0 {
		row, r.free = r.free[n-1], r.free[:n-1]
	} else {
		if r.used%chunkRows == 0 {
			r.chunks = append(r.chunks, newChunk(r.arena))
		}
		r.used++
	}
	c, i := r.at(row)
	c.addID(i, id)
	r.ids.add(row, id)
	return row
}

// remove removes a row, which is counted in no state any more.
func (r *rows) remove(row uint32) {
	r.ids.remove(row)
	c, i := r.at(row)
	c.removeID(i)
	r.free = append(r.free, row)
}
