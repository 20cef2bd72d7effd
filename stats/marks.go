package stats

import (
	"math/bits"
	"slices"
)

// wordBits is the number of positions of one word of marks.
const wordBits = 64

// marks are the positions of the log that were counted: all up to Base, which is a multiple of 64, and those of the
// bits behind it. Commits are acknowledged out of order, so that there are gaps for a moment.
type marks struct {
	Base uint64   `json:"base"`
	Bits []uint64 `json:"bits,omitempty"`
}

// add marks a position, which begins at 1; false when it was marked before.
func (m *marks) add(seq uint64) bool {
	if m.has(seq) {
		return false
	}
	i := seq - m.Base - 1
	for uint64(len(m.Bits)) <= i/wordBits {
		m.Bits = append(m.Bits, 0)
	}
	m.Bits[i/wordBits] |= 1 << (i % wordBits)
	m.settle()
	return true
}

// has reports whether a position is marked.
func (m *marks) has(seq uint64) bool {
	if seq <= m.Base {
		return true
	}
	i := seq - m.Base - 1
	return i/wordBits < uint64(len(m.Bits)) && m.Bits[i/wordBits]>>(i%wordBits)&1 == 1
}

// settle moves the base over the words that are full.
func (m *marks) settle() {
	for len(m.Bits) > 0 && m.Bits[0] == ^uint64(0) {
		m.Base += wordBits
		if m.Bits = m.Bits[1:]; len(m.Bits) == 0 {
			m.Bits = nil // what was in front of it can go
		}
	}
}

// fill marks all positions up to seq.
func (m *marks) fill(seq uint64) {
	for m.Base+wordBits <= seq {
		m.Base += wordBits
		if len(m.Bits) > 0 {
			m.Bits = m.Bits[1:]
		}
	}
	for ; m.missing() <= seq; m.add(m.missing()) {
	}
	m.settle()
}

// missing is the first position that is not marked.
func (m *marks) missing() uint64 {
	for i, word := range m.Bits {
		if word != ^uint64(0) {
			return m.Base + uint64(i)*wordBits + uint64(bits.TrailingZeros64(^word)) + 1 //nolint:gosec // never negative
		}
	}
	return m.Base + uint64(len(m.Bits))*wordBits + 1
}

// newest is the last position that is marked, 0 for none.
func (m *marks) newest() uint64 {
	for i, word := range slices.Backward(m.Bits) {
		if word != 0 {
			return m.Base + uint64(i)*wordBits + uint64(bits.Len64(word)) //nolint:gosec // never negative
		}
	}
	return m.Base
}
