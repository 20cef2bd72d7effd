package tree

import (
	"maps"
	"math"
	"slices"
)

// Told returns the root n with JSON data, as a server says that it is, in place of what was at the path. It
// may be larger than a write. Errors: those of Set, for data that no server holds.
func (n *Node) Told(path Path, data any) (*Node, error) {
	w := writer{most: math.MaxInt}
	value, err := w.node(path, data, nil)
	if err != nil {
		return nil, err
	}
	return n.with(path, value), nil
}

// ToldUpdate returns the root n in which each child that data names is what a server says, and the others
// stay. A name may be a path. Errors: those of Update, for data that no server holds.
func (n *Node) ToldUpdate(path Path, data map[string]any) (*Node, error) {
	targets, err := updated(path, slices.Collect(maps.Keys(data)))
	if err != nil {
		return nil, err
	}
	for name, target := range targets {
		next, err := n.Told(target, data[name])
		if err != nil {
			return nil, err
		}
		n = next
	}
	return n, nil
}
