package hooks

import (
	"encoding/json"

	"github.com/orch-dev/orch/internal/definition"
)

// Parse reads a definition in YAML or JSON and checks it. Errors: PARSE_ERROR, INVALID_PARAMS for an unknown field, and those of
// Check. They name the field.
func Parse(data []byte) (Definition, error) {
	var d Definition
	file := definition.Kind{Name: "hook", Example: "provider: github and plan: deploy.yaml", Most: MaxText}
	fields, err := file.Read(data)
	if err != nil {
		return d, err
	}
	d.Signal, d.NATS = &Signal{}, &Stream{}
	err = definition.Object(fields, "", map[string]definition.Decode{
		"provider": definition.Into(&d.Provider), "when": definition.Into(&d.When), "plan": definition.Into(&d.Plan),
		"inputs": definition.Into(&d.Inputs), "headers": definition.Into(&d.Headers), "note": definition.Into(&d.Note),
		"nats": func(data json.RawMessage, field string) error {
			return definition.Object(data, field, map[string]definition.Decode{
				"stream": definition.Into(&d.NATS.Name), "subject": definition.Into(&d.NATS.Subject), "from": definition.Into(&d.NATS.From),
			})
		},
		"signal": func(data json.RawMessage, field string) error {
			return definition.Object(data, field, map[string]definition.Decode{
				"task": definition.Into(&d.Signal.Task), "name": definition.Into(&d.Signal.Name), "data": definition.Into(&d.Signal.Data),
			})
		},
	})
	if err != nil {
		return d, err
	}
	if d.Signal.Task == "" && d.Signal.Name == "" && len(d.Signal.Data) == 0 {
		d.Signal = nil
	}
	if *d.NATS == (Stream{}) {
		d.NATS = nil
	}
	return d, d.Check()
}
