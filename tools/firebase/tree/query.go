package tree

import (
	"cmp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// The values of OrderBy that are not the path of a child.
const (
	ByKey      = "$key"
	ByValue    = "$value"
	ByPriority = "$priority"
)

// Query selects children of a node.
type Query struct {
	// OrderBy is ByKey, ByValue, ByPriority or the path of a child such as "size/width".
	OrderBy string
	// StartAt and EndAt are inclusive bounds of the sort key: bool, float64 or string; nil means no bound. If a bound
	// and a sort key have different types, the order of the types decides (see compareNodes).
	StartAt, EndAt any
	// Limit is the maximum number of children. The first ones are selected. 0 means no limit.
	Limit int
}

// Child is a child of a node with its key.
type Child struct {
	Key  string
	Node *Node
}

// Select returns in children the children of n that a query selects, in the order of the query. Children with equal sort
// keys are in the order of their keys. selected is a copy of n with only these children, or n itself if the query only
// sorts. For a scalar n, selected is nil unless the query only sorts. Errors: VALIDATION_ERROR for an invalid query.
func (n *Node) Select(q Query) (selected *Node, children []Child, err error) {
	order, err := q.order()
	if err != nil {
		return nil, nil, err
	}
	var found []Child
	if n != nil {
		for key, node := range n.children {
			if c := (Child{key, node}); order.inside(c, q.StartAt, q.EndAt) {
				found = append(found, c)
			}
		}
	}
	slices.SortFunc(found, order.compare)
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	if q.StartAt == nil && q.EndAt == nil && q.Limit == 0 {
		return n, found, nil
	}
	return fromChildren(found), found, nil
}

// fromChildren returns a node with the given children, nil if there are none.
func fromChildren(children []Child) *Node {
	byKey := make(map[string]*Node, len(children))
	for _, c := range children {
		byKey[c.Key] = c.Node
	}
	return newParent(byKey, nil)
}

// order is a sort order of children.
type order struct {
	keys bool // the keys of the children are the sort keys
	// by returns the sort key of a child. It is nil if keys is set.
	by func(*Node) *Node
}

func (q Query) order() (order, error) {
	if err := q.check(); err != nil {
		return order{}, err.WithField("query")
	}
	switch q.OrderBy {
	case ByKey:
		return order{keys: true}, nil
	case ByValue:
		return order{by: func(n *Node) *Node { return n }}, nil
	case ByPriority:
		return order{by: priorityNode}, nil
	}
	path := Path(strings.Split(q.OrderBy, "/"))
	if err := path.check(); err != nil {
		return order{}, refusal.New(refusal.ValidationError, "orderBy names no child: %s", err.Message).WithField("query")
	}
	return order{by: func(n *Node) *Node { return n.At(path) }}, nil
}

func (q Query) check() *fault.Error {
	switch {
	case q.OrderBy == "":
		return refusal.New(refusal.ValidationError, "orderBy must be defined when other query parameters are defined").
			WithHint(`order by a child, %q, %q or %q`, ByKey, ByValue, ByPriority)
	case q.Limit < 0:
		return refusal.New(refusal.ValidationError, "limit must be positive")
	}
	for _, bound := range []any{q.StartAt, q.EndAt} {
		switch bound.(type) {
		case nil, string:
		case bool, float64:
			if q.OrderBy == ByKey {
				return refusal.New(refusal.ValidationError, "with orderBy %q, startAt and endAt are strings", ByKey)
			}
		default:
			return refusal.New(refusal.ValidationError, "startAt and endAt are strings, numbers or booleans, not %s", refusal.KindOf(bound))
		}
	}
	return nil
}

// inside reports whether a child lies between two bounds; nil means no bound.
func (o order) inside(c Child, start, end any) bool {
	return (start == nil || o.compareBound(c, start) >= 0) && (end == nil || o.compareBound(c, end) <= 0)
}

// compareBound compares a child with a bound.
func (o order) compareBound(c Child, bound any) int {
	if key, ok := bound.(string); ok && o.keys {
		return CompareKeys(c.Key, key)
	}
	return compareNodes(o.by(c.Node), newLeaf(bound))
}

// compare compares two children by their sort keys, then by their keys.
func (o order) compare(a, b Child) int {
	if o.keys {
		return CompareKeys(a.Key, b.Key)
	}
	return cmp.Or(compareNodes(o.by(a.Node), o.by(b.Node)), CompareKeys(a.Key, b.Key))
}

// priorityNode returns the priority of a node as a scalar node, nil if it has none.
func priorityNode(n *Node) *Node {
	if n == nil || n.priority == nil {
		return nil
	}
	return newLeaf(n.priority)
}

// compareNodes compares values in the order null, false, true, numbers, strings, objects. All objects are equal.
func compareNodes(a, b *Node) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 || a == nil {
		return c
	}
	switch x := a.scalar.(type) {
	case float64:
		y, _ := b.scalar.(float64)
		return cmp.Compare(x, y)
	case string:
		y, _ := b.scalar.(string)
		return strings.Compare(x, y)
	default:
		return 0
	}
}

// rank returns the rank of the type of a node in the order of types; false and true have different ranks.
func rank(n *Node) int {
	if n == nil {
		return 0
	}
	switch v := n.scalar.(type) {
	case bool:
		return 1 + boolInt(v)
	case float64:
		return 3
	case string:
		return 4
	default:
		return 5
	}
}
