package tools

import (
	"encoding/json"
	"maps"
	"slices"
)

// Fields returns the sorted names of the input fields of a tool: the required ones, and all permitted ones. all is nil
// when the schema permits fields that it does not name, as schemas of external MCP servers may.
func Fields(t Tool) (required, all []string) {
	var schema struct {
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
		Additional json.RawMessage            `json:"additionalProperties"`
		Patterns   json.RawMessage            `json:"patternProperties"`
	}
	if json.Unmarshal(t.InputSchema(), &schema) != nil {
		return nil, nil
	}
	slices.Sort(schema.Required)
	if string(schema.Additional) != "false" || schema.Patterns != nil {
		return schema.Required, nil
	}
	all = slices.AppendSeq(make([]string, 0, len(schema.Properties)), maps.Keys(schema.Properties))
	slices.Sort(all)
	return schema.Required, all
}
