// Package toolstest provides helpers for tests of tools.
package toolstest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools"
)

// Compile compiles a JSON Schema of draft 2020-12 with a validator that shares no code with package tools.
func Compile(tb testing.TB, schema json.RawMessage) *jsonschema.Schema {
	tb.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	require.NoError(tb, c.AddResource("schema.json", parse(tb, schema)))
	compiled, err := c.Compile("schema.json")
	require.NoError(tb, err)
	return compiled
}

// Output fails the test unless out matches the output schema of the tool (S0-012).
func Output(tb testing.TB, tool tools.Tool, out json.RawMessage) {
	tb.Helper()
	require.NoError(tb, Compile(tb, tool.OutputSchema()).Validate(parse(tb, out)), "the output of %s", tool.Spec().Name)
}

// Valid reports whether args match the input schema of the tool.
func Valid(tb testing.TB, tool tools.Tool, args json.RawMessage) bool {
	tb.Helper()
	return Compile(tb, tool.InputSchema()).Validate(parse(tb, args)) == nil
}

func parse(tb testing.TB, text json.RawMessage) any {
	tb.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(tb, err)
	return v
}
