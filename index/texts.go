package index

import "hash/maphash"

// texts numbers different texts. The empty text has the number 0. No text is removed.
type texts struct {
	seed maphash.Seed
	data []byte
	// ends holds the end of each text in data.
	ends []uint32
	// table maps hashes of texts to their numbers plus one; 0 is an empty place.
	table []uint32
}

func newTexts() texts {
	t := texts{seed: maphash.MakeSeed()}
	t.number("")
	return t
}

func (t *texts) bytes(n uint32) []byte {
	start := uint32(0)
	if n > 0 {
		start = t.ends[n-1]
	}
	return t.data[start:t.ends[n]]
}

func (t *texts) text(n uint32) string { return string(t.bytes(n)) }

// find returns the number of a text, if it has one.
func (t *texts) find(text string) (uint32, bool) {
	at, ok := t.seek(text)
	if !ok {
		return 0, false
	}
	return t.table[at] - 1, true
}

// seek returns the place of a text in table, or the empty place where it belongs.
func (t *texts) seek(text string) (uint64, bool) {
	if len(t.table) == 0 {
		return 0, false
	}
	mask := maskOf(t.table)
	at := maphash.String(t.seed, text) & mask
	for ; t.table[at] != 0; at = (at + 1) & mask {
		if string(t.bytes(t.table[at]-1)) == text {
			return at, true
		}
	}
	return at, false
}

// number returns the number of a text, which gets one if it has none.
func (t *texts) number(text string) uint32 {
	at, ok := t.seek(text)
	if ok {
		return t.table[at] - 1
	}
	if 4*(len(t.ends)+1) > 3*len(t.table) {
		t.grow()
		at, _ = t.seek(text)
	}
	t.data = append(t.data, text...)
	t.ends = append(t.ends, uint32(len(t.data))) //nolint:gosec // 4 GiB of texts do not fit into memory
	t.table[at] = uint32(len(t.ends))            //nolint:gosec // as above
	return t.table[at] - 1
}

func (t *texts) grow() {
	t.table = make([]uint32, max(64, 2*len(t.table)))
	mask := maskOf(t.table)
	for n := range t.ends {
		at := maphash.Bytes(t.seed, t.bytes(uint32(n))) & mask
		for t.table[at] != 0 {
			at = (at + 1) & mask
		}
		t.table[at] = uint32(n) + 1
	}
}

// maskOf returns the bits that a place in a hash table can have. The size of the table is a power of two.
func maskOf(table []uint32) uint64 {
	return uint64(len(table) - 1) //nolint:gosec // the table is not empty
}
