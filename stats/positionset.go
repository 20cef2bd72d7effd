package stats

import (
	"math/bits"
	"slices"
)

// wordBits is the number of positions in one word of a set.
const wordBits = 64

// positionSet is the set of counted log positions: all positions up to Base, a multiple of 64, and the positions after
// Base whose bit in Bits is set. Commits are acknowledged out of order, so there are temporary gaps.
type positionSet struct {
	Base uint64   `json:"base"`
	Bits []uint64 `json:"bits,omitempty"`
}

// add adds a position, counted from 1. It returns false if the set contains it already.
func (m *positionSet) add(seq uint64) bool {
	if m.has(seq) {
		return false
	}
	i := seq - m.Base - 1
	for uint64(len(m.Bits)) <= i/wordBits {
		m.Bits = append(m.Bits, 0)
	}
	m.Bits[i/wordBits] |= 1 << (i % wordBits)
	m.compact()
	return true
}

// has reports whether the set contains a position.
func (m *positionSet) has(seq uint64) bool {
	if seq <= m.Base {
		return true
	}
	i := seq - m.Base - 1
	return i/wordBits < uint64(len(m.Bits)) && m.Bits[i/wordBits]>>(i%wordBits)&1 == 1
}

// compact advances the base past full words.
func (m *positionSet) compact() {
	for len(m.Bits) > 0 && m.Bits[0] == ^uint64(0) {
		m.Base += wordBits
		if m.Bits = m.Bits[1:]; len(m.Bits) == 0 {
			m.Bits = nil // release the memory of the removed words
		}
	}
}

// fill adds all positions up to seq.
func (m *positionSet) fill(seq uint64) {
	for m.Base+wordBits <= seq {
		m.Base += wordBits
		if len(m.Bits) > 0 {
			m.Bits = m.Bits[1:]
		}
	}
	for ; m.missing() <= seq; m.add(m.missing()) {
	}
	m.compact()
}

// missing returns the first position that is not in the set.
func (m *positionSet) missing() uint64 {
	for i, word := range m.Bits {
		if word != ^uint64(0) {
			return m.Base + uint64(i)*wordBits + uint64(bits.TrailingZeros64(^word)) + 1 //nolint:gosec // never negative
		}
	}
	return m.Base + uint64(len(m.Bits))*wordBits + 1
}

// newest returns the last position in the set, or 0.
func (m *positionSet) newest() uint64 {
	for i, word := range slices.Backward(m.Bits) {
		if word != 0 {
			return m.Base + uint64(i)*wordBits + uint64(bits.Len64(word)) //nolint:gosec // never negative
		}
	}
	return m.Base
}
