package index

import "math/bits"

// idTable is a hash table of the ids of rows. Its memory is outside of the heap.
type idTable struct {
	rows *rows
	// places has the number of a row plus one in the bits of rowMask, and bits of the hash of its id above them; 0 is an empty place.
	// A row is at the place for its hash or, if others are there, in the next empty one.
	places  []uint32
	rowMask uint32
	count   int
	// release gives the memory of places back.
	release func()
}

// hash mixes an id, whose second half is usually random. Its highest bits choose a place.
func (r rowID) hash() uint64 {
	h := (r.hi*0x9e3779b97f4a7c15 ^ r.lo) * 0xd6e8feb86659fd93
	return (h ^ h>>32) * 0x9e3779b97f4a7c15
}

// home returns the place for a hash. Places are in the order of hashes.
func (t *idTable) home(hash uint64) uint64 {
	at, _ := bits.Mul64(hash, uint64(len(t.places)))
	return at
}

// entry returns what is stored for a row whose id has a hash.
func (t *idTable) entry(row uint32, hash uint64) uint32 {
	return t.tag(hash) | (row + 1)
}

// tag returns the bits of a hash that are stored with a row, which spare most looks at rows with other ids.
func (t *idTable) tag(hash uint64) uint32 {
	return uint32(hash>>4) &^ t.rowMask //nolint:gosec // not the bits that choose a place
}

func (t *idTable) next(at uint64) uint64 {
	if at++; at == uint64(len(t.places)) {
		return 0
	}
	return at
}

// find returns the row with an id.
func (t *idTable) find(id rowID) (uint32, bool) {
	if t.count == 0 {
		return 0, false
	}
	hash := id.hash()
	tag := t.tag(hash)
	for at := t.home(hash); t.places[at] != 0; at = t.next(at) {
		if e := t.places[at]; e&^t.rowMask == tag && t.rows.idOf(e&t.rowMask-1) == id {
			return e&t.rowMask - 1, true
		}
	}
	return 0, false
}

// add adds a row with a new id.
func (t *idTable) add(row uint32, id rowID) {
	if 5*(t.count+1) > 4*len(t.places) {
		t.grow()
	}
	t.place(row, id.hash())
	t.count++
}

func (t *idTable) place(row uint32, hash uint64) {
	at := t.home(hash)
	for t.places[at] != 0 {
		at = t.next(at)
	}
	t.places[at] = t.entry(row, hash)
}

// remove removes a row, whose id is still set.
func (t *idTable) remove(row uint32) {
	at := t.home(t.rows.idOf(row).hash())
	for t.places[at]&t.rowMask != row+1 {
		at = t.next(at)
	}
	t.places[at] = 0
	for at = t.next(at); t.places[at] != 0; at = t.next(at) { // the search for these rows may have passed the place
		moved := t.places[at]&t.rowMask - 1
		t.places[at] = 0
		t.place(moved, t.rows.idOf(moved).hash())
	}
	t.count--
}

// minPlaces is the size of the first table.
const minPlaces = 1024

// grow makes the table larger by a quarter, so that it is never much larger than it has to be.
func (t *idTable) grow() {
	old, oldMask, release := t.places, t.rowMask, t.release
	size := max(minPlaces, len(old)+len(old)/4)
	var mem []byte
	mem, t.release = mapped(t.rows.arena, 4*size)
	t.places, t.rowMask = numbersIn[uint32](mem), uint32(1)<<bits.Len(uint(size))-1
	for _, e := range old {
		if e != 0 {
			row := e&oldMask - 1
			t.place(row, t.rows.idOf(row).hash())
		}
	}
	if release != nil {
		release()
	}
}
