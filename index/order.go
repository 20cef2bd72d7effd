package index

import (
	"iter"
	"slices"
)

// leafRows is the maximum number of rows in a leaf.
const leafRows = 1024

// order lists the rows, the oldest first. Each leaf is a part of the list.
type order struct {
	rows   *rows
	leaves [][]uint32
}

// key is the position of a row in the order: its creation in microseconds, then its id.
type key struct {
	created int64
	id      rowID
}

func (k key) less(b key) bool {
	return k.created < b.created || k.created == b.created && k.id.less(b.id)
}

func (o *order) keyOf(row uint32) key {
	c, i := o.rows.at(row)
	return key{c.createdAt(i), c.id(i)}
}

// seek returns the leaf and the place of the first row that is not before k. The place may be the end of the last leaf.
func (o *order) seek(k key) (leaf, at int) {
	before := func(row uint32, k key) int {
		if o.keyOf(row).less(k) {
			return -1
		}
		return 1
	}
	leaf, _ = slices.BinarySearchFunc(o.leaves, k, func(l []uint32, k key) int { return before(l[len(l)-1], k) })
	if leaf == len(o.leaves) {
		if leaf == 0 {
			return 0, 0
		}
		return leaf - 1, len(o.leaves[leaf-1])
	}
	at, _ = slices.BinarySearchFunc(o.leaves[leaf], k, before)
	return leaf, at
}

// place returns the leaf and the place of a new row. Most rows are the newest.
func (o *order) place(k key) (leaf, at int) {
	leaf = len(o.leaves) - 1
	last := o.leaves[leaf]
	if at = len(last); o.keyOf(last[at-1]).less(k) {
		return leaf, at
	}
	return o.seek(k)
}

// newLeaf returns an empty leaf outside of the heap.
func (o *order) newLeaf() []uint32 { return numbersIn[uint32](o.rows.arena.get(1))[:0:leafRows] }

// insert adds a row whose columns are set.
func (o *order) insert(row uint32) {
	if len(o.leaves) == 0 {
		o.leaves = [][]uint32{append(o.newLeaf(), row)}
		return
	}
	leaf, at := o.place(o.keyOf(row))
	l := o.leaves[leaf]
	if len(l) < leafRows {
		o.leaves[leaf] = slices.Insert(l, at, row)
		return
	}
	cut := len(l) / 2
	if at == len(l) && leaf == len(o.leaves)-1 {
		cut = at // rows usually come in order, and full leaves take less memory
	}
	right := append(o.newLeaf(), l[cut:]...)
	o.leaves[leaf] = l[:cut]
	o.leaves = slices.Insert(o.leaves, leaf+1, right)
	if at < cut || cut < len(l) && at == cut {
		o.leaves[leaf] = slices.Insert(o.leaves[leaf], at, row)
		return
	}
	o.leaves[leaf+1] = slices.Insert(right, at-cut, row)
}

// remove removes a row. Its columns must still be set.
func (o *order) remove(row uint32) {
	leaf, at := o.seek(o.keyOf(row))
	o.leaves[leaf] = slices.Delete(o.leaves[leaf], at, at+1)
	if l := o.leaves[leaf]; len(l) == 0 {
		o.rows.arena.put(unitOf(l))
		o.leaves = slices.Delete(o.leaves, leaf, leaf+1)
	}
}

// after yields the rows after a key, the oldest first.
func (o *order) after(k key) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		leaf, at := o.seek(k)
		for ; leaf < len(o.leaves); leaf, at = leaf+1, 0 {
			for _, row := range o.leaves[leaf][at:] {
				if o.keyOf(row) != k && !yield(row) {
					return
				}
			}
		}
	}
}

// before yields the rows before a key, the newest first.
func (o *order) before(k key) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		leaf, at := o.seek(k)
		for ; leaf >= 0 && leaf < len(o.leaves); leaf-- {
			for _, row := range slices.Backward(o.leaves[leaf][:at]) {
				if !yield(row) {
					return
				}
			}
			if leaf > 0 {
				at = len(o.leaves[leaf-1])
			}
		}
	}
}
