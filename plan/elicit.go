package plan

import (
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/fault"
)

// This file checks the forms of MCP elicitations. MCP restricts their schemas, so that every client can show them.

// CheckRestricted returns VALIDATION_ERROR unless MCP allows the schema for a form: an object whose properties are
// strings, numbers, booleans, choices, or lists of choices.
func CheckRestricted(schema json.RawMessage) error {
	if _, err := formOf(schema); err != nil {
		return restricted("is not a JSON Schema: " + err.Error())
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

// primitive reports whether MCP allows the schema for a property of a form.
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

// CheckContent validates the content of a form against its schema. It returns VALIDATION_ERROR with the invalid field.
func CheckContent(schema, given json.RawMessage) error {
	return checkFormContent(schema, given, "content")
}
