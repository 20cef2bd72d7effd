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

// Specified fails the test unless the schemas of the tool are those that a file has for its name, as "input" and
// "output" (S3-002, S3-003). The schemas of orch say more: they are closed, they describe fields that the file does not
// describe, and have the fields in more, named by their path such as "summary.error".
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
		n := normaliser{more}
		assert.Equal(tb, n.normal("", want, want), n.normal("", got, want), "%s: %s", name, kind)
	}
}

// normaliser sorts what has no order, and leaves out what the specification does not say.
type normaliser struct{ more []string }

func (n normaliser) normal(at string, schema, want object) object {
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
			value = n.one(at, value, want["items"])
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

func (n normaliser) properties(at string, properties, want any) any {
	given, _ := properties.(object)
	wanted, _ := want.(object)
	out := object{}
	for name, p := range given {
		path := name
		if at != "" {
			path = at + "." + name
		}
		if wanted[name] == nil && slices.Contains(n.more, path) {
			continue
		}
		out[name] = n.one(path, p, wanted[name])
	}
	return out
}

func (n normaliser) one(at string, schema, want any) any {
	given, _ := schema.(object)
	wanted, _ := want.(object)
	return n.normal(at, given, wanted)
}
