// Package tree is the data model of the Firebase Realtime Database: a tree of JSON, with writes, the order of keys
// and values, queries, and the difference between two versions as events. It contains no storage; a backend stores a
// tree and sends its changes to watchers.
//
// A tree is immutable. A write returns a new root that shares all unchanged nodes with the old one, so old versions
// use little memory and can be read without a lock.
package tree

import (
	"maps"
	"slices"
)

// Node is a value of the tree: a scalar, or children by key. The nil *Node is null. It is never stored as a child: an
// absent value, a removed child and an empty object are the same.
type Node struct {
	scalar   any // bool, float64 or string; nil when there are children
	priority any // nil, float64 or string
	children map[string]*Node
	size     int
}

// scalarSize is the assumed size of a number or a boolean in bytes.
const scalarSize = 8

// newLeaf returns the node of a scalar.
func newLeaf(scalar any) *Node {
	if text, ok := scalar.(string); ok {
		return &Node{scalar: scalar, size: len(text)}
	}
	return &Node{scalar: scalar, size: scalarSize}
}

// newParent returns a node with children, nil if there are none.
func newParent(children map[string]*Node, priority any) *Node {
	if len(children) == 0 {
		return nil
	}
	n := &Node{children: children, priority: priority}
	for key, child := range children {
		n.size += len(key) + child.size
	}
	return n
}

// Size returns the size of the node in bytes: the lengths of all keys and strings in it, and 8 for each other scalar.
func (n *Node) Size() int {
	if n == nil {
		return 0
	}
	return n.size
}

// At returns the node at a path relative to n, nil if there is none.
func (n *Node) At(path Path) *Node {
	for _, key := range path {
		if n == nil {
			return nil
		}
		n = n.children[key]
	}
	return n
}

// Keys returns the keys of the children in the order of CompareKeys.
func (n *Node) Keys() []string { return slices.SortedFunc(maps.Keys(n.childMap()), CompareKeys) }

// Equal reports whether two nodes have the same content and priorities.
func (n *Node) Equal(other *Node) bool {
	if n == other {
		return true
	}
	if n == nil || other == nil || n.scalar != other.scalar || n.priority != other.priority {
		return false
	}
	return maps.EqualFunc(n.children, other.children, (*Node).Equal)
}

// Value returns the node as decoded JSON: nil, bool, float64, string, []any or map[string]any. Children whose keys are all
// array indexes become an array if more than half of its elements exist. The caller may modify the result.
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

// array reports whether Value returns an array for the children, and the length of the array.
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

// Shallow returns a scalar unchanged. For children it returns only the keys, in the form {key: true} (S3-024).
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

// with returns a copy of n with value at a path; nil removes the path. It removes parents that have no children left, and
// replaces scalars on the path.
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
	return newParent(next, priority)
}
