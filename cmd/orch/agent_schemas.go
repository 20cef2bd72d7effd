package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// parseCapabilities returns the capabilities in the flags, with their schemas.
func (o *registerOptions) parseCapabilities() ([]agents.Capability, error) {
	list := asCapabilities(o.capabilities)
	for _, text := range o.schemas {
		name, file, ok := strings.Cut(text, "=")
		at := slices.IndexFunc(list, func(c agents.Capability) bool { return c.Name == name })
		if !ok || at < 0 {
			return nil, fault.New(fault.InvalidFormat, "%q is not of the form name=FILE with the name of a --capability", text).WithField("--input-schema")
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fault.From(err).WithField("--input-schema")
		}
		var schema any
		if err := json.Unmarshal(content, &schema); err != nil {
			return nil, fault.New(fault.InvalidFormat, "%s is no JSON: %v", file, err).WithField("--input-schema")
		}
		list[at].Parameters = map[string]any{agents.ParameterInputSchema: schema}
	}
	return list, nil
}

// schemaText formats the schemas of capabilities, in a fixed order.
func schemaText(list []agents.Capability) string {
	var texts []string
	for _, c := range list {
		if c.InputSchema() != nil {
			schema, _ := json.Marshal(c.InputSchema()) // it was JSON
			texts = append(texts, c.Name+"="+string(schema))
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}
