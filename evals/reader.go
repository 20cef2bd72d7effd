package evals

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// field is a value of a set, with its path.
type field struct {
	path string
	node *yaml.Node
}

// reader reads the values of a set. After the first error it reads nothing.
type reader struct{ err error }

// fail sets the error, unless there is one.
func (r *reader) fail(f field, format string, args ...any) {
	if r.err != nil {
		return
	}
	at := fmt.Sprintf("line %d: ", f.node.Line)
	if f.path != "" {
		at += f.path + ": "
	}
	r.err = fmt.Errorf("%s%s", at, fmt.Sprintf(format, args...))
}

// each calls read with the entries of an object, in order.
func (r *reader) each(f field, read func(key string, f field)) {
	if f.node.Kind != yaml.MappingNode {
		r.fail(f, "must be an object")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(f.node.Content) && r.err == nil; i += 2 {
		key, value := f.node.Content[i], f.node.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || seen[key.Value] {
			r.fail(field{f.path, key}, "the key %q is wrong, or occurs twice", key.Value)
			return
		}
		seen[key.Value] = true
		read(key.Value, field{strings.TrimPrefix(f.path+"."+key.Value, "."), value})
	}
}

// object reads the fields of an object.
func (r *reader) object(f field, fields map[string]func(field)) {
	r.each(f, func(key string, f field) {
		read := fields[key]
		if read == nil {
			r.fail(f, "there is no such key; the keys are %s", known(fields))
			return
		}
		read(f)
	})
}

// list reads the elements of a list.
func (r *reader) list(f field, limit int, read func(field)) {
	switch {
	case f.node.Kind != yaml.SequenceNode:
		r.fail(f, "must be a list")
	case len(f.node.Content) > limit:
		r.fail(f, "has more than %d elements", limit)
	}
	for i := 0; r.err == nil && i < len(f.node.Content); i++ {
		read(field{fmt.Sprintf("%s[%d]", f.path, i), f.node.Content[i]})
	}
}

// texts reads a list of texts; a text is a list of one.
func (r *reader) texts(f field) (all []string) {
	if f.node.Kind == yaml.ScalarNode {
		return []string{r.text(f)}
	}
	r.list(f, MaxCases, func(f field) { all = append(all, r.text(f)) })
	return all
}

func (r *reader) text(f field) string {
	if f.node.Kind != yaml.ScalarNode || f.node.Tag == "!!null" || f.node.Value == "" {
		r.fail(f, "must be a text")
	}
	return f.node.Value
}

func (r *reader) truth(f field) bool {
	if f.node.Tag != "!!bool" {
		r.fail(f, "must be true or false")
	}
	return strings.EqualFold(f.node.Value, "true")
}

// count reads a whole number from 1.
func (r *reader) count(f field, limit int) int {
	n, err := strconv.Atoi(f.node.Value)
	if f.node.Kind != yaml.ScalarNode || err != nil || n < 1 || n > limit {
		r.fail(f, "must be a whole number from 1 to %d", limit)
		return 1
	}
	return n
}

// number reads a number above 0.
func (r *reader) number(f field, limit float64) float64 {
	n, err := strconv.ParseFloat(f.node.Value, 64)
	if f.node.Kind != yaml.ScalarNode || err != nil || math.IsNaN(n) || n <= 0 || n > limit {
		r.fail(f, "must be a number above 0, at most %g", limit)
	}
	return n
}

// value reads any value of JSON.
func (r *reader) value(f field) any {
	var v any
	if r.err == nil {
		if err := f.node.Decode(&v); err != nil {
			r.fail(f, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		} else if _, err := json.Marshal(v); err != nil {
			r.fail(f, "has no form in JSON")
		}
	}
	return v
}

// keys reads an object of JSON.
func (r *reader) keys(f field) map[string]any {
	v, ok := r.value(f).(map[string]any)
	if !ok {
		r.fail(f, "must be an object")
	}
	return v
}

// pattern checks the pattern of names of tools.
func (r *reader) pattern(f field, text string) string {
	if _, err := path.Match(text, ""); err != nil || text == "" || strings.HasPrefix(text, "!") {
		r.fail(f, "%q is no name of a tool, and no pattern such as FILE_*", text)
	}
	return text
}
