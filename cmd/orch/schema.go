package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/orch-dev/orch/cmd/orch/screen"
)

// inputSchema is the part of a JSON Schema that the command line needs.
type inputSchema struct {
	Required   []string            `json:"required"`
	Properties map[string]property `json:"properties"`
}

// property is one input.
type property struct {
	Type        jsonTypes       `json:"type"`
	Format      string          `json:"format"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Enum        []any           `json:"enum"`
	OneOf       []choice        `json:"oneOf"`
	AnyOf       []choice        `json:"anyOf"`
	Items       *property       `json:"items"`
}

// choice is an allowed value of an input, with its title.
type choice struct {
	Const any    `json:"const"`
	Title string `json:"title"`
}

// UnmarshalJSON decodes a schema if it describes a single value.
func (c *choice) UnmarshalJSON(data []byte) error { //nolint:unparam // the interface of encoding/json
	type plain choice
	if json.Unmarshal(data, (*plain)(c)) != nil {
		*c = choice{}
	}
	return nil
}

// choices returns the allowed values of an input for people. It returns none if the schema lists no values.
func (p property) choices() []string {
	var list []string
	for _, value := range p.Enum {
		list = append(list, fmt.Sprint(value))
	}
	for _, c := range slices.Concat(p.OneOf, p.AnyOf) {
		switch {
		case c.Const == nil: // not a single value
		case c.Title == "":
			list = append(list, fmt.Sprint(c.Const))
		default:
			list = append(list, fmt.Sprint(c.Const)+": "+c.Title)
		}
	}
	if p.Items != nil {
		list = append(list, p.Items.choices()...)
	}
	return list
}

// jsonTypes is the value of the JSON Schema keyword "type": one name, or a list of names.
type jsonTypes []string

// UnmarshalJSON decodes a single name or a list.
func (t *jsonTypes) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = jsonTypes{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// readSchema decodes the parts of a schema that inputSchema contains. It does not validate the schema.
func readSchema(raw json.RawMessage) inputSchema {
	var s inputSchema
	if json.Unmarshal(raw, &s) != nil {
		return inputSchema{}
	}
	return s
}

// propertyOrder returns the names of the properties in the order of the schema.
func propertyOrder(raw json.RawMessage) []string {
	fields, _ := screen.Fields(raw)
	var names []string
	for _, f := range fields {
		if f.Name != "properties" {
			continue
		}
		properties, _ := screen.Fields(f.Value)
		for _, p := range properties {
			names = append(names, p.Name)
		}
	}
	return names
}

func exampleArgs(raw json.RawMessage) string {
	var b strings.Builder
	for _, name := range readSchema(raw).Required {
		b.WriteString(" " + name + "=…")
	}
	return b.String()
}
