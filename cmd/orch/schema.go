package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/orch-dev/orch/cmd/orch/screen"
)

// inputSchema is what the command line has to know of a JSON Schema.
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

// choice is a value that an input may have, with its title.
type choice struct {
	Const any    `json:"const"`
	Title string `json:"title"`
}

// UnmarshalJSON reads a schema as far as it is such a value.
func (c *choice) UnmarshalJSON(data []byte) error { //nolint:unparam // the interface of encoding/json
	type plain choice
	if json.Unmarshal(data, (*plain)(c)) != nil {
		*c = choice{}
	}
	return nil
}

// choices are the values that an input may have, for people; none when nothing is listed.
func (p property) choices() []string {
	var list []string
	for _, value := range p.Enum {
		list = append(list, fmt.Sprint(value))
	}
	for _, c := range slices.Concat(p.OneOf, p.AnyOf) {
		switch {
		case c.Const == nil: // a schema of another kind
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

// jsonTypes is the keyword type: one name, or several.
type jsonTypes []string

// UnmarshalJSON reads both forms.
func (t *jsonTypes) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = jsonTypes{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// readSchema reads a schema as far as it is understood; the real check is made by its owner.
func readSchema(raw json.RawMessage) inputSchema {
	var s inputSchema
	if json.Unmarshal(raw, &s) != nil {
		return inputSchema{}
	}
	return s
}

// propertyOrder returns the names of the properties as the schema orders them.
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
