// Package toolstest helps to test tools.
package toolstest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools"
)

// Compile reads a JSON Schema of draft 2020-12 with a validator that shares no code with the tools.
func Compile(t testing.TB, schema json.RawMessage) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	require.NoError(t, c.AddResource("schema.json", parse(t, schema)))
	compiled, err := c.Compile("schema.json")
	require.NoError(t, err)
	return compiled
}

// Output fails the test unless out fits the output schema of the tool (S0-012).
func Output(t testing.TB, tool tools.Tool, out json.RawMessage) {
	t.Helper()
	require.NoError(t, Compile(t, tool.OutputSchema()).Validate(parse(t, out)), "the output of %s", tool.Spec().Name)
}

// Valid reports whether args fit the input schema of the tool.
func Valid(t testing.TB, tool tools.Tool, args json.RawMessage) bool {
	t.Helper()
	return Compile(t, tool.InputSchema()).Validate(parse(t, args)) == nil
}

func parse(t testing.TB, text json.RawMessage) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	return v
}
