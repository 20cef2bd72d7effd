package tree

import (
	"math"
	"time"
)

// Put is one place of a tree and what stands there; nil is nothing.
type Put struct {
	Path Path
	Node *Node
}

// Patch returns what has to be put into before, one after the other, to make it after: no more than what differs. It costs
// what a write has touched, because versions of a tree share the rest.
func Patch(before, after *Node) []Put { return patch(nil, before, after, nil) }

func patch(at Path, before, after *Node, puts []Put) []Put {
	if before == after {
		return puts
	}
	if len(before.each()) == 0 || len(after.each()) == 0 || before.priority != after.priority {
		if before.Equal(after) {
			return puts
		}
		return append(puts, Put{at, after})
	}
	for _, key := range after.Keys() {
		puts = patch(at.Child(key), before.children[key], after.children[key], puts)
	}
	for _, key := range before.Keys() {
		if after.children[key] == nil { // last: without children, a node and its priority would vanish on the way
			puts = append(puts, Put{Path: at.Child(key)})
		}
	}
	return puts
}

// Put returns the root n with a node in a place.
func (n *Node) Put(p Put) *Node { return n.with(p.Path, p.Node) }

// Export returns the node as JSON that Import reads: with priorities, and with objects in the place of arrays.
func (n *Node) Export() any {
	switch {
	case n == nil:
		return nil
	case n.scalar != nil && n.priority == nil:
		return n.scalar
	case n.scalar != nil:
		return map[string]any{".value": n.scalar, ".priority": n.priority}
	}
	object := make(map[string]any, len(n.children)+1)
	for key, child := range n.children {
		object[key] = child.Export()
	}
	if n.priority != nil {
		object[".priority"] = n.priority
	}
	return object
}

// Import returns the node that was exported, of any size. Errors: those of Set.
func Import(data any) (*Node, error) {
	w := writer{at: time.Time{}, most: math.MaxInt}
	node, err := w.node(nil, data, nil)
	if err != nil {
		return nil, err
	}
	return node, nil
}
