// Package tree is the data model of the Firebase Realtime Database without the database: one tree of
// JSON, what a write makes of it, the order of its keys and values, queries, and the difference between
// two versions as events. It computes only; a backend keeps a tree and gives its changes to watchers.
//
// A tree is immutable. A write returns a new root that shares all that it did not touch with the old
// one, so old versions cost little and may be read without a lock.
package tree

import (
	"maps"
	"slices"
)

// Node is a value of the tree: a scalar, or children by key. The nil *Node is null, which is never
// stored: nothing, a removed child and an empty object are the same.
type Node struct {
	scalar   any // bool, float64 or string; nil when there are children
	priority any // nil, float64 or string
	children map[string]*Node
	size     int
}

// scalarSize is what a number or a boolean counts for in a size.
const scalarSize = 8

// leaf returns the node of a scalar.
func leaf(scalar any) *Node {
	if text, ok := scalar.(string); ok {
		return &Node{scalar: scalar, size: len(text)}
	}
	return &Node{scalar: scalar, size: scalarSize}
}

// parent returns the node with children, nil if there are none.
func parent(children map[string]*Node, priority any) *Node {
	if len(children) == 0 {
		return nil
	}
	n := &Node{children: children, priority: priority}
	for key, child := range children {
		n.size += len(key) + child.size
	}
	return n
}

// Size returns the number of bytes of the keys and strings below n, and 8 for each other scalar.
func (n *Node) Size() int {
	if n == nil {
		return 0
	}
	return n.size
}

// At returns the node at a path below n, nil if there is none.
func (n *Node) At(path Path) *Node {
	for _, key := range path {
		if n == nil {
			return nil
		}
		n = n.children[key]
	}
	return n
}

// Keys returns the keys of the children in their order.
func (n *Node) Keys() []string { return slices.SortedFunc(maps.Keys(n.each()), CompareKeys) }

// Equal reports whether two nodes hold the same, priorities included.
func (n *Node) Equal(other *Node) bool {
	if n == other {
		return true
	}
	if n == nil || other == nil || n.scalar != other.scalar || n.priority != other.priority {
		return false
	}
	return maps.EqualFunc(n.children, other.children, (*Node).Equal)
}

// Value returns the node as JSON: nil, bool, float64, string, []any or map[string]any. Children whose
// keys are integers come back as an array when more than half of its places are taken. The caller may
// change what it gets.
func (n *Node) Value() any {
	switch {
	case n == nil:
		return nil
	case n.scalar != nil:
		return n.scalar
	}
	if length, ok := n.array(); ok {
		values := make([]any, length)
		for key, child := range n.children {
			i, _ := index(key)
			values[i] = child.Value()
		}
		return values
	}
	values := make(map[string]any, len(n.children))
	for key, child := range n.children {
		values[key] = child.Value()
	}
	return values
}

// array returns the length of the array that the children come back as, if they do.
func (n *Node) array() (length int, ok bool) {
	highest := -1
	for key := range n.children {
		i, isIndex := index(key)
		if !isIndex {
			return 0, false
		}
		highest = max(highest, i)
	}
	return highest + 1, highest < 2*len(n.children)
}

// Shallow returns a scalar as it is, and of children only their keys, as {key: true} (S3-024).
func (n *Node) Shallow() any {
	switch {
	case n == nil:
		return nil
	case n.scalar != nil:
		return n.scalar
	}
	keys := make(map[string]any, len(n.children))
	for key := range n.children {
		keys[key] = true
	}
	return keys
}

// with returns n with another node at a path; nil removes. What is left without children vanishes, and a
// scalar on the way gives way to the child.
func (n *Node) with(path Path, value *Node) *Node {
	if len(path) == 0 {
		return value
	}
	key, rest := path[0], path[1:]
	var old *Node
	if n != nil {
		old = n.children[key]
	}
	child := old.with(rest, value)
	if child == old {
		return n
	}
	next, priority := map[string]*Node{}, any(nil)
	if n != nil {
		priority = n.priority
		maps.Copy(next, n.children)
	}
	if child != nil {
		next[key] = child
	} else {
		delete(next, key)
	}
	return parent(next, priority)
}
