package document

import (
	"cmp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// ByID sorts documents by their ids.
const ByID = "__name__"

// Document is a document of a collection.
type Document struct {
	ID     string
	Fields Fields
}

// Query selects documents of a collection.
type Query struct {
	// OrderBy is a field path, such as "size.width", or ByID. Documents without the field are omitted. "" means ByID.
	OrderBy string
	// StartAt and EndAt are inclusive bounds of the sort key: bool, float64 or string; nil means no bound. They require
	// OrderBy. If a bound and a sort key have different types, the order of the types decides (see Compare).
	StartAt, EndAt any
	// Limit is the maximum number of documents; 0 means no limit.
	Limit int
}

// Select returns the documents that a query selects, in its order. Documents with equal sort keys are ordered by id.
// Errors: VALIDATION_ERROR for an invalid query.
func Select(documents []Document, q Query) ([]Document, error) {
	by, err := q.order()
	if err != nil {
		return nil, err.WithField("query")
	}
	type keyed struct {
		key any
		Document
	}
	var found []keyed
	for _, d := range documents {
		if key, ok := by(d); ok && q.inside(key) {
			found = append(found, keyed{key, d})
		}
	}
	slices.SortFunc(found, func(a, b keyed) int {
		return cmp.Or(Compare(a.key, b.key), strings.Compare(a.ID, b.ID))
	})
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	selected := make([]Document, len(found))
	for i, f := range found {
		selected[i] = f.Document
	}
	return selected, nil
}

// order returns a function that returns the sort key of a document; false if the document has none.
func (q Query) order() (func(Document) (any, bool), *fault.Error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	if q.OrderBy == "" || q.OrderBy == ByID {
		return func(d Document) (any, bool) { return d.ID, true }, nil
	}
	path, err := fieldPath(q.OrderBy)
	if err != nil {
		return nil, refusal.New(refusal.ValidationError, "orderBy names no field: %s", err.Message)
	}
	return func(d Document) (any, bool) { return lookup(d.Fields, path) }, nil
}

func (q Query) check() *fault.Error {
	if q.Limit < 0 {
		return refusal.New(refusal.ValidationError, "limit must be positive")
	}
	for _, bound := range []any{q.StartAt, q.EndAt} {
		switch bound.(type) {
		case nil:
			continue
		case string:
		case bool, float64:
			if q.OrderBy == ByID {
				return refusal.New(refusal.ValidationError, "with orderBy %q, startAt and endAt are strings", ByID)
			}
		default:
			return refusal.New(refusal.ValidationError, "startAt and endAt are strings, numbers or booleans, not %s", refusal.KindOf(bound))
		}
		if q.OrderBy == "" {
			return refusal.New(refusal.ValidationError, "startAt and endAt need orderBy").
				WithHint("order by a field, or by %q for the ids", ByID)
		}
	}
	return nil
}

// inside reports whether a value lies between the bounds.
func (q Query) inside(value any) bool {
	return (q.StartAt == nil || Compare(value, q.StartAt) >= 0) && (q.EndAt == nil || Compare(value, q.EndAt) <= 0)
}

// lookup returns the value at a field path; false if there is no such field. The value may be null.
func lookup(object map[string]any, path []string) (any, bool) {
	value, ok := object[path[0]]
	if !ok || len(path) == 1 {
		return value, ok
	}
	inner, _ := value.(map[string]any)
	return lookup(inner, path[1:])
}

// Compare compares values in the order of Firestore: null, false, true, numbers, strings, arrays, objects. Strings are
// compared by bytes, arrays by elements, and objects by names and values in the order of names.
func Compare(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch x := a.(type) {
	case float64:
		y, _ := b.(float64)
		return cmp.Compare(x, y)
	case string:
		y, _ := b.(string)
		return strings.Compare(x, y)
	case []any:
		y, _ := b.([]any)
		return slices.CompareFunc(x, y, Compare)
	case map[string]any:
		y, _ := b.(map[string]any)
		return compareObjects(x, y)
	default:
		return 0
	}
}

func compareObjects(a, b map[string]any) int {
	x, y := names(a), names(b)
	for i := range min(len(x), len(y)) {
		if c := cmp.Or(strings.Compare(x[i], y[i]), Compare(a[x[i]], b[y[i]])); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

// rank returns the rank of the type of a value in the order of types; false and true have different ranks.
func rank(value any) int {
	switch v := value.(type) {
	case nil:
		return 0
	case bool:
		if v {
			return 2
		}
		return 1
	case float64:
		return 3
	case string:
		return 4
	case []any:
		return 5
	default:
		return 6
	}
}
