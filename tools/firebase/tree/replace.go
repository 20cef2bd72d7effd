package tree

import (
	"maps"
	"math"
	"slices"
)

// Replace returns the root n with JSON data from a server at the path. The data may be larger than a write. Errors:
// those of Set, for data that no server contains.
func (n *Node) Replace(path Path, data any) (*Node, error) {
	w := writer{limit: math.MaxInt}
	value, err := w.node(path, data, nil)
	if err != nil {
		return nil, err
	}
	return n.with(path, value), nil
}

// ReplaceChildren returns the root n with each child in data replaced by data from a server; the others are not
// changed. A name may be a path. Errors: those of Update, for data that no server contains.
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
