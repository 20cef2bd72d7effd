package tree

import "slices"

// Kind is a kind of event. Its value is the name in the protocol of the Realtime Database.
type Kind string

// The kinds, in the order in which a listener receives the events of one write.
const (
	ChildRemoved Kind = "child_removed"
	ChildAdded   Kind = "child_added"
	ChildChanged Kind = "child_changed"
	Value        Kind = "value"
)

// Change is one event for a listener.
type Change struct {
	Kind Kind
	// Key is the key of the child, "" for Value.
	Key string
	// Now is the child or the value after the write; for ChildRemoved the removed child.
	Now *Node
	// Before is the child or the value before the write, nil if there was none.
	Before *Node
}

// Diff returns the events for a listener of a node that changes from before to after, in the order of the protocol.
// It returns none if the nodes are equal.
func Diff(before, after *Node) []Change {
	if before.Equal(after) {
		return nil
	}
	var removed, added, changed []Change
	for key, old := range before.childMap() {
		if after.At(Path{key}) == nil {
			removed = append(removed, Change{ChildRemoved, key, old, old})
		}
	}
	for key, now := range after.childMap() {
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

// childMap returns the children of a node, which may be nil.
func (n *Node) childMap() map[string]*Node {
	if n == nil {
		return nil
	}
	return n.children
}

// compareChanges compares changes in the default order of children: by priority, then by key.
func compareChanges(a, b Change) int {
	return order{by: priorityNode}.compare(Child{a.Key, a.Now}, Child{b.Key, b.Now})
}
