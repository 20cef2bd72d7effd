package tree

import "slices"

// Kind is a kind of event, by its name in the protocol.
type Kind string

// The kinds, in the order in which one write gives them to a listener.
const (
	ChildRemoved Kind = "child_removed"
	ChildAdded   Kind = "child_added"
	ChildChanged Kind = "child_changed"
	Value        Kind = "value"
)

// Change is one event of a listener.
type Change struct {
	Kind Kind
	// Key is that of the child, "" for Value.
	Key string
	// Now is the child or the value after the write, for ChildRemoved the child that was removed.
	Now *Node
	// Before is what stood there before the write, nil if nothing did.
	Before *Node
}

// Diff returns what a listener of a node learns when before becomes after, in the order of the protocol.
// Nothing follows from a write that changes nothing.
func Diff(before, after *Node) []Change {
	if before.Equal(after) {
		return nil
	}
	var removed, added, changed []Change
	for key, old := range before.each() {
		if after.At(Path{key}) == nil {
			removed = append(removed, Change{ChildRemoved, key, old, old})
		}
	}
	for key, now := range after.each() {
		switch old := before.At(Path{key}); {
		case old == nil:
			added = append(added, Change{ChildAdded, key, now, nil})
		case !old.Equal(now):
			changed = append(changed, Change{ChildChanged, key, now, old})
		}
	}
	for _, changes := range [][]Change{removed, added, changed} {
		slices.SortFunc(changes, compareChanges)
	}
	return append(slices.Concat(removed, added, changed), Change{Kind: Value, Now: after, Before: before})
}

// each returns the children, none of nothing.
func (n *Node) each() map[string]*Node {
	if n == nil {
		return nil
	}
	return n.children
}

// compareChanges orders changes as children are ordered without a query: by priority, then by key.
func compareChanges(a, b Change) int {
	return order{by: priorityNode}.compare(Child{a.Key, a.Now}, Child{b.Key, b.Now})
}
