package index

import (
	"encoding/binary"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/oklog/ulid/v2"

	"github.com/orch-dev/orch/events"
)

// rowID is a task id as two numbers that sort like the id.
type rowID struct{ hi, lo uint64 }

const idPrefix = "TASK_"

// parseID returns the number of a task id; false if the id is not in canonical form.
func parseID(id events.TaskID) (rowID, bool) {
	if len(id) != len(idPrefix)+ulid.EncodedSize || id[:len(idPrefix)] != idPrefix {
		return rowID{}, false
	}
	parsed, err := ulid.ParseStrict(string(id[len(idPrefix):]))
	return rowIDOf(parsed), err == nil
}

func rowIDOf(u ulid.ULID) rowID {
	return rowID{binary.BigEndian.Uint64(u[:8]), binary.BigEndian.Uint64(u[8:])}
}

func (r rowID) bytes() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.hi), r.lo)
}

func (r rowID) task() events.TaskID {
	return events.TaskID(idPrefix + ulid.ULID(r.bytes()).String())
}

func (r rowID) less(b rowID) bool { return r.hi < b.hi || r.hi == b.hi && r.lo < b.lo }

func (r rowID) hash() uint64 { return (r.hi ^ r.lo) * 0x9e3779b97f4a7c15 >> 16 }

const (
	chunkBits = 12
	chunkRows = 1 << chunkBits
)

// chunk holds the columns of some rows. The rows of a chunk have no pointers, so that chunks can be outside of the heap: the
// garbage collector would reserve as much memory again for them.
type chunk struct {
	id               [chunkRows]rowID
	created, updated [chunkRows]int64 // microseconds
	// These are numbers of texts. why is the block and the reason, origin the priority and the command (see joined).
	name, requestor, labels, parent, session, why, origin [chunkRows]uint32
	state, flags                                          [chunkRows]uint8
	// states counts the rows by the code of their state.
	states [maxStates]int32
	// All ids that the chunk has ever had are from low to high.
	low, high rowID
}

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
	if c.high == (rowID{}) || id.less(c.low) {
		c.low = id
	}
	if c.high.less(id) {
		c.high = id
	}
	c.id[i] = id
}

// idsIn counts the ids from low to high, and returns one of them.
func (c *chunk) idsIn(low, high rowID) (id rowID, count int) {
	if high.less(c.low) || c.high.less(low) {
		return rowID{}, 0
	}
	if !c.low.less(low) && !high.less(c.high) {
		return c.anyID(), c.len()
	}
	for i := range c.id {
		if at := &c.id[i]; *at != (rowID{}) && !at.less(low) && !high.less(*at) {
			id = *at
			count++
		}
	}
	return id, count
}

// anyID returns the id of a row; zero if the chunk is empty.
func (c *chunk) anyID() rowID {
	for i := range c.id {
		if c.id[i] != (rowID{}) {
			return c.id[i]
		}
	}
	return rowID{}
}

// len returns the number of rows.
func (c *chunk) len() int {
	rows := int32(0)
	for _, n := range c.states {
		rows += n
	}
	return int(rows)
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
)

// outOfQueue are the flags of tasks that the queue does not contain.
const outOfQueue = flagInternal | flagImported

// ended reports whether the task of a row does not change any more.
func (c *chunk) ended(i uint32) bool { return isFinished(c.state[i]) || c.flags[i]&flagImported != 0 }

// savedFlags are the flags that the file contains.
const savedFlags = flagPaused | flagArchived | flagInternal | flagImported

// rows is a table of rows with stable numbers, and a hash table of their ids.
type rows struct {
	chunks []*chunk
	// used is the number of rows in chunks, free lists those of them that were removed.
	used uint32
	free []uint32
	// table maps hashes of ids to the number of the row plus one; 0 is an empty place.
	table []uint32
	count int
}

// at returns the chunk and the place of a row.
func (r *rows) at(row uint32) (*chunk, uint32) {
	return r.chunks[row>>chunkBits], row & (chunkRows - 1)
}

func (r *rows) idOf(row uint32) rowID {
	c, i := r.at(row)
	return c.id[i]
}

// find returns the row with an id.
func (r *rows) find(id rowID) (uint32, bool) {
	if r.count == 0 {
		return 0, false
	}
	mask := maskOf(r.table)
	for at := id.hash() & mask; r.table[at] != 0; at = (at + 1) & mask {
		if row := r.table[at] - 1; r.idOf(row) == id {
			return row, true
		}
	}
	return 0, false
}

// add adds an empty row.
func (r *rows) add(id rowID) uint32 {
	if 4*(r.count+1) > 3*len(r.table) {
		r.grow()
	}
	row := r.used
	if n := len(r.free); n > 0 {
		row, r.free = r.free[n-1], r.free[:n-1]
	} else {
		if r.used%chunkRows == 0 {
			r.chunks = append(r.chunks, newChunk(r))
		}
		r.used++
	}
	c, i := r.at(row)
	c.addID(i, id)
	r.place(row)
	r.count++
	return row
}

func (r *rows) place(row uint32) {
	mask := maskOf(r.table)
	at := r.idOf(row).hash() & mask
	for r.table[at] != 0 {
		at = (at + 1) & mask
	}
	r.table[at] = row + 1
}

// maskOf returns the bits that a place in a hash table can have. The size of the table is a power of two.
func maskOf(table []uint32) uint64 {
	return uint64(len(table) - 1) //nolint:gosec // the table is not empty
}

func (r *rows) grow() {
	old := r.table
	r.table = make([]uint32, max(64, 2*len(old)))
	for _, n := range old {
		if n != 0 {
			r.place(n - 1)
		}
	}
}

// remove removes a row.
func (r *rows) remove(row uint32) {
	mask := maskOf(r.table)
	at := r.idOf(row).hash() & mask
	for r.table[at] != row+1 {
		at = (at + 1) & mask
	}
	r.table[at] = 0
	for at = (at + 1) & mask; r.table[at] != 0; at = (at + 1) & mask { // the search for these rows may have passed the place
		moved := r.table[at] - 1
		r.table[at] = 0
		r.place(moved)
	}
	c, i := r.at(row)
	c.id[i], c.flags[i], c.state[i] = rowID{}, 0, 0
	r.free = append(r.free, row)
	r.count--
}

// newChunk returns an empty chunk. Its memory is given back when owner is no longer reachable.
func newChunk(owner *rows) *chunk {
	size := int(unsafe.Sizeof(chunk{}))
	data, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return &chunk{}
	}
	runtime.AddCleanup(owner, func(data []byte) { _ = syscall.Munmap(data) }, data)
	return (*chunk)(unsafe.Pointer(unsafe.SliceData(data))) //nolint:gosec // a chunk has no pointers, and the memory is large enough
}
