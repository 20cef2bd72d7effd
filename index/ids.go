package index

import "math/bits"

// idTable is a hash table of the ids of rows. Its memory is outside of the heap.
type idTable struct {
	rows *rows
	// places has the number of a row plus one in the bits of rowMask, and bits of the hash of its id above them. A row is at the place
	// for its hash or, if others are there, after it. A place is 0 if it was never taken, and gone if its row was removed.
	places  []uint32
	rowMask uint32
	gone    uint32
	// count is the number of rows, taken the number of places that are not 0.
	count, taken int
	// release gives the memory of places back.
	release func()
}

// hash mixes an id, whose second half is usually random. Its highest bits choose a place.
func (r rowID) hash() uint64 {
	h := (r.hi*0x9e3779b97f4a7c15 ^ r.lo) * 0xd6e8feb86659fd93
	return (h ^ h>>32) * 0x9e3779b97f4a7c15
}

// home returns the place for a hash.
func (t *idTable) home(hash uint64) uint64 {
	at, _ := bits.Mul64(hash, uint64(len(t.places)))
	return at
}

// entry returns what is stored for a row whose id has a hash. The bits of the hash spare most looks at rows with other ids.
func (t *idTable) entry(row uint32, hash uint64) uint32 {
	return uint32(hash>>4)&^t.rowMask | (row + 1) //nolint:gosec // not the bits that choose a place
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
	want := t.entry(0, hash) &^ t.rowMask
	for at := t.home(hash); t.places[at] != 0; at = t.next(at) {
		e := t.places[at]
		if row := e&t.rowMask - 1; e&^t.rowMask == want && e != t.gone && t.rows.idOf(row) == id {
			return row, true
		}
	}
	return 0, false
}

// add adds a row with a new id. There is room for it.
func (t *idTable) add(row uint32, id rowID) {
	hash := id.hash()
	at := t.home(hash)
	for t.places[at] != 0 && t.places[at] != t.gone {
		at = t.next(at)
	}
	if t.places[at] == 0 {
		t.taken++
	}
	t.places[at] = t.entry(row, hash)
	t.count++
}

// remove removes a row, whose id is still set.
func (t *idTable) remove(row uint32) {
	at := t.home(t.rows.idOf(row).hash())
	for t.places[at]&t.rowMask != row+1 {
		at = t.next(at)
	}
	t.places[at] = t.gone
	if t.places[t.next(at)] == 0 {
		t.places[at] = 0
		t.taken--
	}
	t.count--
}

// minPlaces is the size of the first table.
const minPlaces = 1024

// reserve makes room for one more row. The table grows by a quarter, so that it is never much larger than it has to be, unless
// there is enough room without the places of removed rows.
func (t *idTable) reserve() {
	size := len(t.places)
	if 5*(t.taken+1) <= 4*size {
		return
	}
	if 10*(t.count+1) > 7*size {
		size = max(minPlaces, size+size/4)
	}
	release := t.release
	var mem []byte
	mem, t.release = mapped(t.rows.arena, 4*size)
	t.places, t.rowMask = numbersIn[uint32](mem), uint32(1)<<bits.Len(uint(size))-1
	t.gone, t.count, t.taken = ^t.rowMask, 0, 0
	for n, c := range t.rows.chunks {
		for i := range c.rows {
			if c.flags[i]&flagFree == 0 {
				t.add(uint32(n)<<chunkBits+i, c.id(i))
			}
		}
	}
	if release != nil {
		release()
	}
}
