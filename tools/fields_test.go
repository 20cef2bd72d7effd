package tools_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/tools"
)

// foreign is a tool with an arbitrary schema.
type foreign struct {
	tools.Tool

	schema string
}

func (f foreign) InputSchema() json.RawMessage { return json.RawMessage(f.schema) }

func TestFields(t *testing.T) {
	t.Parallel()
	type in struct {
		B string `json:"b"`
		A int    `json:"a,omitempty"`
	}
	own := tools.Define(tools.Spec{Name: "OWN"}, func(context.Context, *tools.Env, in) (struct{}, error) { return struct{}{}, nil })
	for _, tc := range []struct {
		tool          tools.Tool
		required, all []string
	}{
		{own, []string{"b"}, []string{"a", "b"}},
		{foreign{schema: `{"type":"object","additionalProperties":false}`}, nil, []string{}},
		{foreign{schema: `{"type":"object","properties":{"a":{}},"required":["b","a"]}`}, []string{"a", "b"}, nil},
		{foreign{schema: `{"properties":{"a":{}},"additionalProperties":false,"patternProperties":{"^x":{}}}`}, nil, nil},
		{foreign{schema: `{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`}, nil, nil},
		{foreign{schema: `true`}, nil, nil},
	} {
		required, all := tools.Fields(tc.tool)
		assert.Equal(t, tc.required, required, string(tc.tool.InputSchema()))
		assert.Equal(t, tc.all, all, string(tc.tool.InputSchema()))
	}
}
