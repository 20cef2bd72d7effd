package index

import (
	"encoding/binary"
	"math/bits"
)

// column holds a number for each row of a chunk, in as many bytes as the numbers of this chunk need: the difference to a base is
// stored. Nothing is stored while all numbers are equal.
type column struct {
	base int64
	// mask has the bits that a difference may have, in width bytes.
	mask  uint64
	width uint32
	// data has eight bytes from the place of each row, of which the first width belong to it.
	data []byte
}

// noBytes is the data of columns whose numbers are equal. It is never written.
var noBytes = make([]byte, 8)

// at returns the number of a row.
func (c *column) at(i uint32) int64 {
	return c.base + int64(binary.LittleEndian.Uint64(c.data[i*c.width:])&c.mask) //nolint:gosec // modulo 2^64
}

// text is at for numbers of texts.
func (c *column) text(i uint32) uint32 { return uint32(c.at(i)) } //nolint:gosec // it was set to a number of a text

// same returns the number of all rows if it is the same.
func (c *column) same() (n int64, ok bool) { return c.base, c.width == 0 }

// fits reports whether a number can be stored, as those of all rows are.
func (c *column) fits(n int64) bool { return uint64(n-c.base)&^c.mask == 0 } //nolint:gosec // modulo 2^64

// put sets the number of a row, which must fit. It leaves the bytes after those of the row as they are.
func (c *column) put(i uint32, n int64) {
	if c.width == 0 {
		return
	}
	at := c.data[i*c.width:]
	binary.LittleEndian.PutUint64(at, binary.LittleEndian.Uint64(at)&^c.mask|uint64(n-c.base)) //nolint:gosec // modulo 2^64
}

// widen makes room for a number that does not fit into row i, and for those of the other rows below rows. Each time the column
// becomes wider, so it is not written anew more than eight times.
func (c *column) widen(a *arena, rows, i uint32, n int64) {
	low, high := n, n
	for row := range rows {
		if row != i {
			low, high = min(low, c.at(row)), max(high, c.at(row))
		}
	}
	wide := c.frame(low, high)
	wide.data = a.get(wide.width)
	for row := range rows {
		if row != i {
			wide.put(row, c.at(row))
		}
	}
	c.reset(a, 0)
	*c = wide
}

// frame returns a column that is wider than c and has room for the numbers from low to high. More numbers above them fit than
// below, because most numbers grow from row to row.
func (c *column) frame(low, high int64) column {
	span := uint64(high) - uint64(low)                    //nolint:gosec // modulo 2^64
	width := max(uint32(bits.Len64(span)+7)/8, c.width+1) //nolint:gosec // at most 8
	mask := ^uint64(0) >> (64 - 8*width)
	below := (mask - span) / 16
	if low >= 0 {
		below = min(below, uint64(low)) // most columns have no number below zero
	}
	return column{base: int64(uint64(low) - below), mask: mask, width: width} //nolint:gosec // modulo 2^64
}

// reset makes all numbers equal, and gives the memory back.
func (c *column) reset(a *arena, n int64) {
	if c.width > 0 {
		a.put(c.data)
	}
	*c = column{base: n, data: noBytes}
}
