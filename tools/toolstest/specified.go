package toolstest

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools"
)

type object = map[string]any

// Specified fails the test unless the schemas of the tool match the specified ones (S3-002, S3-003). The JSON file
// contains the schemas "input" and "output" under the name of the tool. The schemas of orch may differ in three ways:
// they reject unknown fields, describe more fields, and have the additional fields in more, given by path, such as
// "summary.error".
func Specified(tb testing.TB, tool tools.Tool, file string, more ...string) {
	tb.Helper()
	text, err := os.ReadFile(file)
	require.NoError(tb, err)
	var all map[string]map[string]object
	require.NoError(tb, json.Unmarshal(text, &all))
	name := tool.Spec().Name
	require.NotNil(tb, all[name]["input"], name)
	for kind, schema := range map[string]json.RawMessage{"input": tool.InputSchema(), "output": tool.OutputSchema()} {
		want := all[name][kind]
		if want == nil {
			continue
		}
		var got object
		require.NoError(tb, json.Unmarshal(schema, &got))
		delete(want, "$schema")
		n := normalizer{more}
		assert.Equal(tb, n.normalize("", want, want), n.normalize("", got, want), "%s: %s", name, kind)
	}
}

// normalizer sorts unordered lists, and removes keywords that the specification does not contain.
type normalizer struct{ more []string }

// normalize returns the comparable form of a schema; want is the schema of the specification.
func (n normalizer) normalize(at string, schema, want object) object {
	out := object{}
	for key, value := range schema {
		switch key {
		case "additionalProperties":
			if value == false {
				continue
			}
		case "description":
			if want["description"] == nil {
				continue
			}
		case "required", "type":
			if list, ok := value.([]any); ok {
				value = sorted(list)
			}
		case "properties":
			value = n.properties(at, value, want["properties"])
		case "items":
			value = n.schema(at, value, want["items"])
		}
		out[key] = value
	}
	return out
}

func sorted(list []any) []any {
	return slices.SortedFunc(slices.Values(list), func(a, b any) int {
		x, _ := a.(string)
		y, _ := b.(string)
		return cmp.Compare(x, y)
	})
}

func (n normalizer) properties(at string, properties, want any) any {
	got, _ := properties.(object)
	expected, _ := want.(object)
	out := object{}
	for name, p := range got {
		path := name
		if at != "" {
			path = at + "." + name
		}
		if expected[name] == nil && slices.Contains(n.more, path) {
			continue
		}
		out[name] = n.schema(path, p, expected[name])
	}
	return out
}

func (n normalizer) schema(at string, schema, want any) any {
	got, _ := schema.(object)
	expected, _ := want.(object)
	return n.normalize(at, got, expected)
}
