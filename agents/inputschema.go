package agents

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// maxInputSchema bounds the schema of a capability, in bytes.
const maxInputSchema = 16 << 10

// errNoReferences is the error for a schema with references.
var errNoReferences = errors.New("a schema must not contain references")

// ParameterInputSchema is the parameter of a capability that contains the JSON Schema of its calls' data.
const ParameterInputSchema = "inputSchema"

// InputSchema returns the JSON Schema of the data of calls for the capability; nil accepts any data.
func (c Capability) InputSchema() any { return c.Parameters[ParameterInputSchema] }

// noLoader is a jsonschema.URLLoader that loads nothing.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) { return nil, errNoReferences }

// compile returns the compiled schema of a capability, or nil if it has none. References are rejected, so that the cost
// of a check is bounded by the size of the data and the schema.
func (c Capability) compile() (*jsonschema.Schema, error) {
	if c.InputSchema() == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	if hasReference(c.InputSchema()) {
		return nil, errNoReferences
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	const name = "mem:input"
	if err := compiler.AddResource(name, c.InputSchema()); err != nil {
		return nil, err
	}
	return compiler.Compile(name)
}

// hasReference reports whether a schema has a reference anywhere.
func hasReference(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if name == "$ref" || name == "$dynamicRef" || name == "$recursiveRef" || hasReference(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasReference)
	}
	return false
}

// checkSchema returns an error if the schema of a capability is invalid.
func (c Capability) checkSchema() error {
	if c.InputSchema() == nil {
		return nil
	}
	text, err := json.Marshal(c.InputSchema())
	if err == nil && len(text) > maxInputSchema {
		return fault.New(fault.ValidationError, "the input schema of %s has more than %d bytes", clip(c.Name), maxInputSchema).
			WithField("capabilities.parameters.inputSchema").WithReason("SIZE_LIMIT_EXCEEDED")
	}
	if err == nil {
		_, err = c.compile()
	}
	if err != nil {
		return fault.New(fault.InvalidFormat, "the input schema of %s is not a JSON Schema (2020-12) without references: %s", clip(c.Name), clip(firstLine(err))).
			WithField("capabilities.parameters.inputSchema")
	}
	return nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// selection is the part of AGENT_TASK's arguments that selects an agent, with the data of the call.
type selection struct {
	Requires []string `json:"requires"`
	Data     any      `json:"data"`
}

// checkData checks the data of a call against the schemas of the member's required capabilities.
func (m *Member) checkData(w selection) *fault.Error {
	for _, c := range m.Capabilities {
		if !slices.Contains(w.Requires, c.Name) {
			continue
		}
		schema, err := c.compile()
		if err != nil || schema == nil {
			continue // it was checked when it was registered
		}
		if wrong, ok := errors.AsType[*jsonschema.ValidationError](schema.Validate(w.Data)); ok {
			return wrongInput(m.Name, c.Name, wrong)
		}
	}
	return nil
}

// wrongInput returns the error for the first field that violates a schema.
func wrongInput(agent, capability string, e *jsonschema.ValidationError) *fault.Error {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	field := strings.Join(append([]string{"data"}, e.InstanceLocation...), ".")
	return fault.New(fault.ValidationError, "the capability %s of the agent %s does not take it: %s", capability, agent,
		e.ErrorKind.LocalizedString(message.NewPrinter(language.English))).
		WithField(field).WithReason("INPUT_SCHEMA").WithHint("orch agents card %s shows the agent; its schema is in orch agents -o json", agent)
}

// rejectInvalidData ends a call if its data violates the schemas of the agent. The call is handed over to an agent that
// accepts the data, if there is one, and fails otherwise. It reports whether it ended the call.
func (d *Dispatcher) rejectInvalidData(ctx context.Context, m Member, call work.Call) (bool, error) {
	w := selection{Data: map[string]any{}}
	if !m.hasSchemas() || json.Unmarshal(call.Args, &w) != nil {
		return false, nil //nolint:nilerr // a later check rejects arguments that cannot be decoded
	}
	why := m.checkData(w)
	if why == nil {
		return false, nil
	}
	out := work.Outcome{Ref: call.Ref, Worker: m.Actor(), StartedAt: events.Time(d.clock()), Error: why, Class: fault.ClassInvalidArgs}
	if receiver := d.findReceiver(ctx, call, w); receiver != "" {
		handed := out
		handed.Error = fault.New(fault.Unavailable, "the agent %s has not been given the call: %s", m.Name, why.Message)
		handed.Class, handed.HandTo = fault.ClassHandoff, &events.Agents{Agent: receiver, Requires: slices.Sorted(slices.Values(w.Requires))}
		if err := d.report(ctx, handed); !refusedHandover(err) {
			return true, err
		}
	}
	return true, d.report(ctx, out)
}

func refusedHandover(err error) bool {
	return fault.Has(err, fault.Forbidden) || fault.Has(err, fault.ApprovalRequired)
}

func (m *Member) hasSchemas() bool {
	return slices.ContainsFunc(m.Capabilities, func(c Capability) bool { return c.InputSchema() != nil })
}

// findReceiver returns the name of a registered agent that has the required capabilities and accepts the data of a
// call, preferably one that is online; "" for none.
func (d *Dispatcher) findReceiver(ctx context.Context, call work.Call, w selection) (name string) {
	members, err := d.registry.Agents(ctx)
	if err != nil {
		return ""
	}
	for _, v := range members {
		able := !slices.ContainsFunc(w.Requires, func(c string) bool { return !slices.Contains(v.CapabilityNames(), c) })
		mine := v.For == "" || v.For == call.Requester
		if !able || !mine || v.checkData(w) != nil {
			continue
		}
		if name == "" || v.Status != Offline {
			name = v.Name
		}
	}
	return name
}
