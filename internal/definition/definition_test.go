package definition_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/definition"
)

func kind() definition.Kind { return definition.Kind{Name: "thing", Example: "size: 3", Most: 100} }

// thing is a definition with a nested object.
type thing struct {
	size int
	name string
}

func parse(data []byte) (t thing, err error) {
	fields, err := kind().Read(data)
	if err != nil {
		return t, err
	}
	return t, definition.Object(fields, "", map[string]definition.Decode{
		"size": definition.Into(&t.size),
		"of": func(data json.RawMessage, field string) error {
			return definition.Object(data, field, map[string]definition.Decode{"name": definition.Into(&t.name)})
		},
	})
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"size: 3\nof: {name: x}", `{"size":3,"of":{"name":"x"}}`, "---\nof:\n  name: x\nsize: 3\n"} {
		got, err := parse([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, thing{3, "x"}, got)
	}
	for text, want := range map[string]fault.Error{
		"":                              {Code: fault.ParseError, Message: "the definition is not an object"},
		"[1]":                           {Code: fault.ParseError, Message: "the definition is not an object"},
		"a: [":                          {Code: fault.ParseError, Message: "the definition is not YAML"},
		"size: 1\n---\nsize: 2":         {Code: fault.ParseError, Message: "the file has several documents"},
		"{1: 2}":                        {Code: fault.ParseError, Message: "the definition has keys that are not texts"},
		"siz: 3":                        {Code: fault.InvalidParams, Field: "siz", Message: "is not known"},
		"of: {nam: x}":                  {Code: fault.InvalidParams, Field: "of.nam", Message: "is not known"},
		"of: 3":                         {Code: fault.InvalidFormat, Field: "of", Message: "is not an object"},
		"of: {name: 3}":                 {Code: fault.InvalidFormat, Field: "of.name", Message: "has the wrong type"},
		strings.Repeat("x", 101):        {Code: fault.ValidationError, Message: "the definition has 101 bytes; the limit is 100"},
		strings.Repeat("y", 70) + ": 1": {Code: fault.InvalidParams, Field: strings.Repeat("y", 60) + "…", Message: "is not known"},
	} {
		_, err := parse([]byte(text))
		f := fault.From(err)
		require.Error(t, err, text)
		assert.Equal(t, want.Code, f.Code, text)
		assert.Equal(t, want.Field, f.Field, text)
		assert.Contains(t, f.Message, want.Message, text)
	}
}

func FuzzDefinition(f *testing.F) {
	for _, text := range []string{"size: 3", "of: {name: x}", "- &a [*a]", "? {a: 1}\n: 2", "\xff"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := parse(data); err != nil {
			assert.NotEqual(t, fault.Internal, fault.CodeOf(err))
		}
	})
}
