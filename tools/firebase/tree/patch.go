package tree

import (
	"math"
	"time"
)

// Assignment sets the node at a path of a tree; a nil node removes the path.
type Assignment struct {
	Path Path
	Node *Node
}

// Patch returns the assignments that turn before into after when applied in order. There is at most one assignment for
// each difference. The cost depends only on the changed nodes, because versions of a tree share unchanged nodes.
func Patch(before, after *Node) []Assignment { return patch(nil, before, after, nil) }

// patch appends the assignments for the node at a path to assignments.
func patch(at Path, before, after *Node, assignments []Assignment) []Assignment {
	if before == after {
		return assignments
	}
	if len(before.childMap()) == 0 || len(after.childMap()) == 0 || before.priority != after.priority {
		if before.Equal(after) {
			return assignments
		}
		return append(assignments, Assignment{at, after})
	}
	for _, key := range after.Keys() {
		assignments = patch(at.Child(key), before.children[key], after.children[key], assignments)
	}
	for _, key := range before.Keys() {
		if after.children[key] == nil { // last, because a node without children would be removed with its priority
			assignments = append(assignments, Assignment{Path: at.Child(key)})
		}
	}
	return assignments
}

// Assign returns the root n with an assignment applied.
func (n *Node) Assign(a Assignment) *Node { return n.with(a.Path, a.Node) }

// Export returns the node as decoded JSON for Import: with priorities, and with objects instead of arrays.
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

// Import returns the node of exported data, without a size limit. Errors: those of Set.
func Import(data any) (*Node, error) {
	w := writer{at: time.Time{}, limit: math.MaxInt}
	node, err := w.node(nil, data, nil)
	if err != nil {
		return nil, err
	}
	return node, nil
}
