package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file computes the items of a step with `matrix`: the combinations of the values of its axes.

// The keys of a matrix that are not axes, and the limits of a matrix.
const (
	matrixInclude = "include"
	matrixExclude = "exclude"
	// maxEntries bounds the entries of include, and those of exclude.
	maxEntries = 256
	// maxAxes bounds the axes, and the values of an entry.
	maxAxes = 32
	// maxPairs bounds how many pairs of an item and an entry are compared.
	maxPairs = 100_000
	// defaultMatrix is the name of an item of a matrix in expressions.
	defaultMatrix = "matrix"
)

// matrix parses the axes: an object whose values are lists or expressions, or one expression for the whole object.
func (c cursor) matrix() any {
	if c.node.Kind == yaml.ScalarNode && isExpression(c.node.Value) {
		return c.node.Value
	}
	pairs := c.pairs()
	if len(pairs) > maxAxes+2 { // include and exclude are not axes
		c.report(fmt.Sprintf("the matrix has more than %d axes", maxAxes), "")
		return map[string]any{}
	}
	for _, p := range pairs {
		computed := p.value.node.Kind == yaml.ScalarNode && isExpression(p.value.node.Value)
		switch {
		case !isID(p.key):
			p.reportKey("the name of the axis "+quote(p.key)+" has a wrong form", "lower-case letters, digits and _, the first a letter, at most 63")
		case p.value.node.Kind != yaml.SequenceNode && !computed:
			p.value.report("is "+p.value.kind()+", but a list of values is expected", "such as "+p.key+": [1, 2]")
		}
	}
	if len(pairs) == 0 {
		c.report("matrix needs at least one axis", "such as `matrix: {os: [linux, mac]}`")
	}
	return c.value()
}

// axes returns the names of the axes of a literal matrix; known is false when they are computed.
func axes(matrix any) (names []string, known bool) {
	object, known := matrix.(map[string]any)
	for _, name := range sortedKeys(object) {
		if name != matrixInclude && name != matrixExclude {
			names = append(names, name)
		}
	}
	return names, known
}

// members returns the names that an item of a matrix can have; nil when they are computed.
func members(matrix any) []string {
	names, known := axes(matrix)
	object, _ := matrix.(map[string]any)
	more, listed := object[matrixInclude].([]any)
	if !known || object[matrixInclude] != nil && !listed {
		return nil
	}
	for _, entry := range more {
		fields, ok := entry.(map[string]any)
		if !ok {
			return nil
		}
		names = append(names, sortedKeys(fields)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkMatrix reports problems that are known before a matrix is evaluated.
func (l *linker) checkMatrix(matrix any, at location) {
	names, known := axes(matrix)
	object, _ := matrix.(map[string]any)
	if excluded, ok := object[matrixExclude].([]any); ok && known {
		for i, entry := range excluded {
			fields, _ := entry.(map[string]any)
			for _, name := range sortedKeys(fields) {
				if !slices.Contains(names, name) {
					here := at.field(matrixExclude).item(i).field(name)
					here.report("there is no axis "+quote(name), here.suggest(name, names, "the axes are "+strings.Join(names, ", ")))
				}
			}
		}
	}
	size := 1
	for _, name := range names {
		if list, ok := object[name].([]any); ok {
			size = min(size*len(list), MaxMatrix+1)
		}
	}
	if size > MaxMatrix {
		at.report(fmt.Sprintf("the matrix has more than %d items", MaxMatrix), "")
	}
}

// combination is one item of a matrix, its values in JSON.
type combination map[string]json.RawMessage

// matches reports whether c and other have equal values for all of names that both contain.
func (c combination) matches(other combination, names []string) bool {
	for _, name := range names {
		if value, has := other[name]; has && !bytes.Equal(value, c[name]) {
			return false
		}
	}
	return true
}

// combine returns the items of an evaluated matrix: the product of its axes, sorted by name, with the last axis varying
// fastest, without the combinations that match `exclude`. An entry of `include` adds its values to the items with which
// it agrees on all axes. An entry that agrees with no item becomes an additional item.
func (n *Node) combine(v any) ([]any, error) {
	names, known := axes(v)
	if !known {
		return nil, n.invalid("matrix gives %s, not an object", typeName(v))
	}
	if len(names) > maxAxes {
		return nil, n.invalid("matrix has %d axes, more than %d", len(names), maxAxes)
	}
	object, _ := v.(map[string]any)
	items, err := n.product(object, names)
	if err != nil {
		return nil, err
	}
	excluded, err := n.combinations(object, matrixExclude)
	if err != nil {
		return nil, err
	}
	included, err := n.combinations(object, matrixInclude)
	if err != nil {
		return nil, err
	}
	if pairs := len(items) * (len(excluded) + len(included)); pairs > maxPairs {
		return nil, n.invalid("matrix has %d items and %d entries of include and exclude: %d pairs to compare, more than %d",
			len(items), len(excluded)+len(included), pairs, maxPairs)
	}
	items = slices.DeleteFunc(items, func(item combination) bool {
		return slices.ContainsFunc(excluded, func(e combination) bool { return item.matches(e, sortedKeys(e)) })
	})
	return listOf(include(items, included, names)), nil
}

// include adds the entries of `include` to the items.
func include(items, entries []combination, names []string) []combination {
	given := make([]combination, len(items)) // the values of the axes only
	for i, item := range items {
		given[i] = maps.Clone(item)
	}
	for _, entry := range entries {
		found := false
		for i, item := range given {
			if item.matches(entry, names) {
				maps.Copy(items[i], entry)
				found = true
			}
		}
		if !found {
			items = append(items, maps.Clone(entry))
		}
	}
	return items
}

// product returns the combinations of the values of the axes. Without axes it returns no combinations.
func (n *Node) product(object map[string]any, names []string) ([]combination, error) {
	if len(names) == 0 {
		return nil, nil
	}
	values, size := make([][]json.RawMessage, len(names)), 1
	for i, name := range names {
		list, ok := object[name].([]any)
		if !ok {
			return nil, n.invalid("the axis %s of matrix gives %s, not a list", name, typeName(object[name]))
		}
		if size *= len(list); size > MaxMatrix {
			return nil, n.invalid("the matrix has more than %d items", MaxMatrix)
		}
		for _, value := range list {
			raw, err := encode(value)
			if err != nil {
				return nil, err
			}
			values[i] = append(values[i], raw)
		}
	}
	items := make([]combination, size)
	for at := range items {
		items[at] = make(combination, len(names))
		for i, rest := len(names)-1, at; i >= 0; i-- {
			items[at][names[i]] = values[i][rest%len(values[i])]
			rest /= len(values[i])
		}
	}
	return items, nil
}

// combinations parses the objects of `include` or `exclude`.
func (n *Node) combinations(object map[string]any, key string) ([]combination, error) {
	if object[key] == nil {
		return nil, nil
	}
	list, ok := object[key].([]any)
	if !ok {
		return nil, n.invalid("`%s` of matrix gives %s, not a list", key, typeName(object[key]))
	}
	if len(list) > maxEntries {
		return nil, n.invalid("`%s` of matrix has %d entries, more than %d", key, len(list), maxEntries)
	}
	found := make([]combination, len(list))
	for i, entry := range list {
		fields, ok := entry.(map[string]any)
		if !ok {
			return nil, n.invalid("`%s` of matrix holds %s, not an object", key, typeName(entry))
		}
		if len(fields) > maxAxes {
			return nil, n.invalid("an entry of `%s` of matrix has %d values, more than %d", key, len(fields), maxAxes)
		}
		found[i] = combination{}
		for name, value := range fields {
			raw, err := encode(value)
			if err != nil {
				return nil, err
			}
			found[i][name] = raw
		}
	}
	return found, nil
}

// listOf returns the items as a list of JSON values.
func listOf(items []combination) []any {
	list := make([]any, len(items))
	for i, item := range items {
		list[i] = item
	}
	return list
}
