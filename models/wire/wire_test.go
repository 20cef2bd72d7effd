package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

func TestCloseObjects(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`true`:              `true`,
		`{"type":"string"}`: `{"type":"string"}`,
		`{"type":"object","properties":{"z":{"type":"string"},"a":{"properties":{"x":true}}},"required":["z"]}`: `{"type":"object","properties":{"z":{"type":"string"},"a":{"properties":{"x":true},"additionalProperties":false}},"required":["z"],"additionalProperties":false}`,
		`{"properties":{"properties":{"type":"string"}}}`:                                                       `{"properties":{"properties":{"type":"string"}},"additionalProperties":false}`,
		`{"properties":{},"additionalProperties":{"properties":{}}}`:                                            `{"properties":{},"additionalProperties":{"properties":{},"additionalProperties":false}}`,
		`{"anyOf":[{"properties":{"<a>":{}}},{"const":{"properties":{}}}]}`:                                     `{"anyOf":[{"properties":{"<a>":{}},"additionalProperties":false},{"const":{"properties":{}}}]}`,
		`{"$defs":{"properties":{"properties":{}}},"items":{"$ref":"#/$defs/x"},"default":1}`:                   `{"$defs":{"properties":{"properties":{},"additionalProperties":false}},"items":{"$ref":"#/$defs/x"},"default":1}`,
	} {
		assert.Equal(t, want, string(wire.CloseObjects(json.RawMessage(schema))), schema)
	}
}

func TestIsStrict(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]bool{
		`{"type":"string"}`: true,
		`{"type":"object"}`: false,
		`{"type":"object","additionalProperties":false}`:                                                               true,
		`{"properties":{"a":{}},"required":["a"],"additionalProperties":false}`:                                        true,
		`{"properties":{"a":{}},"required":["b"],"additionalProperties":false}`:                                        false,
		`{"properties":{"a":{}},"required":["a"]}`:                                                                     false,
		`{"properties":{"a":{}},"required":["a"],"additionalProperties":true}`:                                         false,
		`{"items":{"anyOf":[{"type":"null"},{"type":"object"}]}}`:                                                      false,
		`{"properties":{"properties":{"type":"string"}},"required":["properties"],"additionalProperties":false}`:       true,
		`{"properties":{"a":{"enum":[{"type":"object"}]}},"required":["a"],"additionalProperties":false,"default":{}}`: true,
		`{"required":"a"}`: false,
		`{`:                false,
	} {
		assert.Equal(t, want, wire.IsStrict(json.RawMessage(schema)), schema)
	}
}

func FuzzSchemas(f *testing.F) {
	f.Add(`{"type":"object","properties":{"z":{"type":"string"},"a":{"properties":{"x":true}}},"required":["z"]}`)
	f.Fuzz(func(t *testing.T, schema string) {
		if !json.Valid([]byte(schema)) {
			return
		}
		once := wire.CloseObjects(json.RawMessage(schema))
		require.True(t, json.Valid(once), string(once))
		assert.Equal(t, string(once), string(wire.CloseObjects(once)))
		wire.IsStrict(once)
	})
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                `{}`,
		" \n":             `{}`,
		`{"a": [1, "<"]}`: `{"a": [1, "<"]}`,
		`{"a": `:          `{"invalid_arguments":"{\"a\": "}`,
		`[1]`:             `{"invalid_arguments":"[1]"}`,
		`null`:            `{"invalid_arguments":"null"}`,
		`{} {}`:           `{"invalid_arguments":"{} {}"}`,
		"\xff":            `{"invalid_arguments":"\ufffd"}`,
	} {
		assert.Equal(t, want, string(wire.Arguments(args)), args)
	}
}

func TestToolName(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "FILE_READ", models.ToolName("FILE_READ"))
	assert.Equal(t, "functions_read_file_", models.ToolName("functions.read file!"))
	assert.Len(t, models.ToolName(string(make([]byte, 100))), 64)
}

func TestTooManyParts(t *testing.T) {
	t.Parallel()
	a := wire.NewAnswer(nil)
	for range 10_000 {
		_, err := a.Call("", "F")
		require.NoError(t, err)
	}
	_, err := a.Call("", "F")
	var known *models.Error
	require.ErrorAs(t, err, &known)
	assert.Equal(t, models.TooLarge, known.Kind)
}
