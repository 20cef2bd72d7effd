package firebase_test

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools/firebase"
)

type object = map[string]any

// S3-001 to S3-003, S3-020, S3-021, S3-030, S3-034, S3-040, S3-041, S3-048: names and schemas are those of the
// specification. They say more about fields that have no description there, and they are closed.
func TestSchemasAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/seed003.json")
	require.NoError(t, err)
	var all map[string]map[string]object
	require.NoError(t, json.Unmarshal(text, &all))
	var names []string
	for _, tool := range firebase.Tools(firebase.Config{}) {
		name := tool.Spec().Name
		names = append(names, name)
		require.NotNil(t, all[name]["input"], name)
		for kind, text := range map[string]json.RawMessage{"input": tool.InputSchema(), "output": tool.OutputSchema()} {
			want := all[name][kind]
			if want == nil { // firebase.unsubscribe has no output there
				continue
			}
			var got object
			require.NoError(t, json.Unmarshal(text, &got))
			delete(want, "$schema")
			assert.Equal(t, normal(want, want), normal(got, want), "%s: %s", name, kind)
		}
	}
	assert.Equal(t, []string{"firebase.read", "firebase.write", "firebase.subscribe", "firebase.unsubscribe"}, names)
}

// normal sorts what has no order, and leaves out what the specification does not say.
func normal(schema, want object) object {
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
			value = each(value, want["properties"])
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

func each(properties, want any) any {
	given, _ := properties.(object)
	wanted, _ := want.(object)
	out := object{}
	for name, p := range given {
		inner, _ := p.(object)
		like, _ := wanted[name].(object)
		out[name] = normal(inner, like)
	}
	return out
}
