package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/fault"
)

// Parse reads a definition in YAML or JSON and checks it. Errors: PARSE_ERROR, INVALID_PARAMS for an unknown field, and those of
// Check. They name the field.
func Parse(data []byte) (Definition, error) {
	var d Definition
	if len(data) > MaxText {
		return d, fault.New(fault.ValidationError, "the definition has %d bytes; the limit is %d", len(data), MaxText)
	}
	var tree, more any
	documents := yaml.NewDecoder(bytes.NewReader(data))
	if err := documents.Decode(&tree); err != nil && !errors.Is(err, io.EOF) {
		return d, fault.New(fault.ParseError, "the definition is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if documents.Decode(&more) == nil {
		return d, fault.New(fault.ParseError, "the file has several documents").WithHint("a file defines one hook")
	}
	normal, err := json.Marshal(tree)
	if err != nil {
		return d, fault.Wrap(fault.ParseError, err, "the definition has keys that are not texts")
	}
	if normal[0] != '{' {
		return d, fault.New(fault.ParseError, "the definition is not an object").WithHint("such as provider: github and plan: deploy.yaml")
	}
	d.Signal = &Signal{}
	err = object(normal, "", map[string]any{
		"provider": &d.Provider, "when": &d.When, "plan": &d.Plan, "inputs": &d.Inputs, "headers": &d.Headers, "note": &d.Note,
		"signal": func(raw json.RawMessage, field string) error {
			return object(raw, field, map[string]any{"task": &d.Signal.Task, "name": &d.Signal.Name, "data": &d.Signal.Data})
		},
	})
	if err != nil {
		return d, err
	}
	if d.Signal.Task == "" && d.Signal.Name == "" && len(d.Signal.Data) == 0 {
		d.Signal = nil
	}
	return d, d.Check()
}

// object decodes the fields of an object: each into a pointer, or with a function.
func object(data json.RawMessage, at string, known map[string]any) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fault.New(fault.InvalidFormat, "is not an object").WithField(at)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field := strings.TrimPrefix(at+"."+name, ".")
		var err error
		switch to := known[name].(type) {
		case nil:
			return fault.New(fault.InvalidParams, "is not known").WithField(field).
				WithHint("the fields are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case func(json.RawMessage, string) error:
			err = to(fields[name], field)
		default:
			if json.Unmarshal(fields[name], to) != nil {
				err = fault.New(fault.InvalidFormat, "has another type").WithField(field)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
