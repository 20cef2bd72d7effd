package document

import (
	"maps"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Merge returns f deeply merged with data. Non-empty objects are merged; any other value replaces the old one. Errors:
// those of New.
func (f Fields) Merge(data any) (Fields, error) {
	added, err := New(data)
	if err != nil {
		return nil, err
	}
	return merge(f, added), nil
}

func merge(old, added map[string]any) map[string]any {
	all := maps.Clone(old)
	if all == nil {
		all = map[string]any{}
	}
	for name, value := range added {
		before, _ := all[name].(map[string]any)
		after, isObject := value.(map[string]any)
		if isObject && len(after) > 0 {
			value = merge(before, after)
		}
		all[name] = value
	}
	return all
}

// Update returns f with each field in data replaced. A name may be a field path, such as "size.width". Errors: those
// of New, and VALIDATION_ERROR if one path contains another.
func (f Fields) Update(data any) (Fields, error) {
	changes, err := objectOf(data)
	if err != nil {
		return nil, err.WithField("data")
	}
	targets, err := updateTargets(changes)
	if err != nil {
		return nil, err.WithField("data")
	}
	fields := map[string]any(f)
	for _, name := range names(changes) {
		value, err := clone(changes[name], len(targets[name]))
		if err != nil {
			return nil, err.WithField("data")
		}
		fields = with(fields, targets[name], value)
	}
	if fields == nil {
		fields = map[string]any{}
	}
	return fields, nil
}

// updateTargets returns the path of each name of an update. VALIDATION_ERROR if one path contains another.
func updateTargets(changes map[string]any) (map[string][]string, *fault.Error) {
	targets := make(map[string][]string, len(changes))
	for name := range changes {
		path, err := fieldPath(name)
		if err != nil {
			return nil, err
		}
		targets[name] = path
	}
	sorted := slices.SortedFunc(maps.Values(targets), slices.Compare[[]string])
	for i := 1; i < len(sorted); i++ {
		outer, inner := sorted[i-1], sorted[i]
		if len(outer) <= len(inner) && slices.Equal(outer, inner[:len(outer)]) {
			return nil, refusal.New(refusal.ValidationError, "an update cannot write both %q and %q: one contains the other",
				strings.Join(outer, "."), strings.Join(inner, "."))
		}
	}
	return targets, nil
}

// fieldPath parses a field path such as "size.width".
func fieldPath(text string) ([]string, *fault.Error) {
	if strings.ContainsAny(text, "~*/[]") {
		return nil, refusal.New(refusal.ValidationError, "the field path %q contains one of ~ * / [ ]", text)
	}
	path := strings.Split(text, ".")
	if len(path) > MaxDepth {
		return nil, refusal.New(refusal.SizeLimitExceeded, "the field path %q is more than %d levels deep", text, MaxDepth)
	}
	for _, name := range path {
		if err := checkName(name); err != nil {
			return nil, err
		}
	}
	return path, nil
}

// with returns a copy of an object with a value at a field path. It replaces values on the path that are not objects.
func with(object map[string]any, path []string, value any) map[string]any {
	all := maps.Clone(object)
	if all == nil {
		all = map[string]any{}
	}
	if len(path) > 1 {
		inner, _ := all[path[0]].(map[string]any)
		value = with(inner, path[1:], value)
	}
	all[path[0]] = value
	return all
}
