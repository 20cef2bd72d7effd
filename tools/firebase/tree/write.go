package tree

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Set returns the root n with decoded JSON at the path; null removes the path. Server values in the data are evaluated
// with the time at and with the nodes that they replace. Errors: INVALID_PATH (for a key in the data or the depth),
// INVALID_DATA_TYPE, SIZE_LIMIT_EXCEEDED.
func (n *Node) Set(path Path, data any, at time.Time) (*Node, error) {
	w := writer{at: at, limit: MaxWrite}
	value, err := w.node(path, data, n.At(path))
	if err != nil {
		return nil, err.WithField("data")
	}
	return n.with(path, value), nil
}

// Delete returns the root n without the node at the path.
func (n *Node) Delete(path Path) *Node { return n.with(path, nil) }

// Update returns the root n with each child that data contains replaced; other children are not changed. A name in data
// may be a path, such as "a/b". Errors: those of Set, INVALID_DATA_TYPE for data that is not an object, and
// VALIDATION_ERROR if one path contains another.
func (n *Node) Update(path Path, data any, at time.Time) (*Node, error) {
	changes, ok := data.(map[string]any)
	if !ok {
		return nil, refusal.New(refusal.InvalidDataType, "an update takes an object, this is %s", refusal.KindOf(data)).WithField("data")
	}
	targets, err := updateTargets(path, slices.Collect(maps.Keys(changes)))
	if err != nil {
		return nil, err.WithField("data")
	}
	w, root := writer{at: at, limit: MaxWrite}, n
	for name, target := range targets {
		value, err := w.node(target, changes[name], n.At(target))
		if err != nil {
			return nil, err.WithField("data")
		}
		root = root.with(target, value)
	}
	return root, nil
}

// updateTargets returns the path of each name of an update. VALIDATION_ERROR if one path contains another.
func updateTargets(base Path, names []string) (map[string]Path, *fault.Error) {
	targets := make(map[string]Path, len(names))
	for _, name := range names {
		target := base.Child(strings.Split(strings.TrimPrefix(name, "/"), "/")...)
		if err := target.check(); err != nil {
			return nil, err
		}
		targets[name] = target
	}
	sorted := slices.SortedFunc(maps.Values(targets), slices.Compare[Path])
	for i := 1; i < len(sorted); i++ {
		if sorted[i-1].Contains(sorted[i]) {
			return nil, refusal.New(refusal.ValidationError,
				"an update cannot write both %q and %q: one contains the other", sorted[i-1], sorted[i])
		}
	}
	return targets, nil
}

// writer converts the JSON of one write to nodes and counts its size.
type writer struct {
	at time.Time
	// size is the number of bytes so far, limit the maximum of size.
	size, limit int
}

// node returns the node for data that replaces old at a path.
func (w *writer) node(path Path, data any, old *Node) (*Node, *fault.Error) {
	switch v := data.(type) {
	case nil:
		return nil, path.check()
	case []any:
		return w.children(path, arrayObject(v), old)
	case map[string]any:
		return w.object(path, v, old)
	default:
		return w.scalar(path, v)
	}
}

// arrayObject returns an array as an object with the indexes as keys.
func arrayObject(values []any) map[string]any {
	object := make(map[string]any, len(values))
	for i, value := range values {
		object[strconv.Itoa(i)] = value
	}
	return object
}

// object returns the node for a JSON object. The object may be a server value (".sv") or have a priority.
func (w *writer) object(path Path, object map[string]any, old *Node) (*Node, *fault.Error) {
	if server, ok := object[".sv"]; ok {
		if len(object) != 1 {
			return nil, refusal.New(refusal.InvalidDataType, `".sv" must be the only field of its object`)
		}
		value, err := w.serverValue(server, old)
		if err != nil {
			return nil, err
		}
		return w.scalar(path, value)
	}
	priority, err := priorityOf(object)
	if err != nil {
		return nil, err
	}
	node, err := w.content(path, object, old)
	if err != nil || node == nil || priority == nil {
		return node, err
	}
	prioritised := *node
	prioritised.priority = priority
	return &prioritised, nil
}

// content returns the node for an object, without setting its priority.
func (w *writer) content(path Path, object map[string]any, old *Node) (*Node, *fault.Error) {
	_, prioritised := object[".priority"]
	value, scalar := object[".value"]
	switch named := len(object) - boolInt(prioritised) - boolInt(scalar); {
	case scalar && named > 0:
		return nil, refusal.New(refusal.InvalidDataType, `".value" cannot be in one object with other children`)
	case scalar:
		return w.value(path, value)
	case prioritised:
		object = maps.Clone(object)
		delete(object, ".priority")
	}
	return w.children(path, object, old)
}

func boolInt(present bool) int {
	if present {
		return 1
	}
	return 0
}

// value returns the node for the value of ".value".
func (w *writer) value(path Path, value any) (*Node, *fault.Error) {
	if value == nil {
		return nil, path.check()
	}
	return w.scalar(path, value)
}

func (w *writer) children(path Path, object map[string]any, old *Node) (*Node, *fault.Error) {
	if err := path.check(); err != nil {
		return nil, err
	}
	children := make(map[string]*Node, len(object))
	for key, value := range object {
		if err := w.add(len(key)); err != nil {
			return nil, err
		}
		child, err := w.node(path.Child(key), value, old.At(Path{key}))
		if err != nil {
			return nil, err
		}
		if child != nil {
			children[key] = child
		}
	}
	return newParent(children, nil), nil
}

func (w *writer) scalar(path Path, value any) (*Node, *fault.Error) {
	switch v := value.(type) {
	case bool, float64:
	case string:
		if len(v) > MaxString {
			return nil, refusal.New(refusal.SizeLimitExceeded, "a string has %d bytes, at most %d", len(v), MaxString)
		}
	default:
		return nil, refusal.New(refusal.InvalidDataType, "the database stores no %s", refusal.KindOf(value))
	}
	node := newLeaf(value)
	if err := cmp.Or(path.check(), w.add(node.size)); err != nil {
		return nil, err
	}
	return node, nil
}

// add counts bytes of the write, and returns SIZE_LIMIT_EXCEEDED beyond the limit.
func (w *writer) add(bytes int) *fault.Error {
	w.size += bytes
	if w.size > w.limit {
		return refusal.New(refusal.SizeLimitExceeded, "one write can have at most %d bytes", w.limit)
	}
	return nil
}
