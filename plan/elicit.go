package plan

import (
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/fault"
)

// This file holds what MCP says about the forms of elicitations: their schemas are restricted, so that every
// client can show them.

// CheckRestricted checks that a schema is one that MCP allows for a form: an object whose properties are texts,
// numbers, booleans, choices, or lists of choices. VALIDATION_ERROR otherwise.
func CheckRestricted(schema json.RawMessage) error {
	if _, err := formOf(schema); err != nil {
		return restricted("is no JSON Schema: " + err.Error())
	}
	var form struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &form) != nil || form.Type != "object" || form.Properties == nil {
		return restricted("must have the type object, and properties")
	}
	for _, name := range sortedKeys(form.Properties) {
		if !primitive(form.Properties[name]) {
			return restricted("property " + name + " must be a text, a number, a boolean, or a list of choices")
		}
	}
	return nil
}

func restricted(problem string) error {
	return fault.New(fault.ValidationError, "%s", problem).WithField("requestedSchema")
}

// primitive reports whether a property of a form is one that MCP allows.
func primitive(schema json.RawMessage) bool {
	var p struct {
		Type       string          `json:"type"`
		Items      json.RawMessage `json:"items"`
		Properties json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &p) != nil || p.Properties != nil {
		return false
	}
	if p.Type != "array" {
		return slices.Contains([]string{"string", "number", "integer", "boolean"}, p.Type)
	}
	var items map[string]json.RawMessage
	return json.Unmarshal(p.Items, &items) == nil && (items["enum"] != nil || items["anyOf"] != nil)
}

// CheckContent checks what somebody has filled in against the schema of a form: VALIDATION_ERROR naming the
// field.
func CheckContent(schema, given json.RawMessage) error { return fits(schema, given, "content") }
