package tree

import (
	"maps"
	"math"
	"slices"
)

// Replace returns the root n with the node at a path replaced by decoded JSON from a server. The data may be larger than a
// write. Errors: those of Set, for data that no correct server sends.
func (n *Node) Replace(path Path, data any) (*Node, error) {
	w := writer{limit: math.MaxInt}
	value, err := w.node(path, data, nil)
	if err != nil {
		return nil, err
	}
	return n.with(path, value), nil
}

// ReplaceChildren returns the root n with each child that data contains replaced by the data, which comes from a server. A
// name in data may be a path. Errors: those of Update, for data that no correct server sends.
func (n *Node) ReplaceChildren(path Path, data map[string]any) (*Node, error) {
	targets, err := updateTargets(path, slices.Collect(maps.Keys(data)))
	if err != nil {
		return nil, err
	}
	for name, target := range targets {
		next, err := n.Replace(target, data[name])
		if err != nil {
			return nil, err
		}
		n = next
	}
	return n, nil
}
