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

// maxInputSchema bounds the bytes of the schema of a capability.
const maxInputSchema = 16 << 10

// errNoReferences refuses what a schema might load from elsewhere.
var errNoReferences = errors.New("a schema stands by itself")

// ParameterInputSchema is the parameter of a capability that says what data its calls have.
const ParameterInputSchema = "inputSchema"

// InputSchema is the JSON Schema of the data of the calls that are for the capability; nil takes any.
func (c Capability) InputSchema() any { return c.Parameters[ParameterInputSchema] }

// nothing is a loader that has nothing.
type nothing struct{}

// Load implements jsonschema.URLLoader.
func (nothing) Load(string) (any, error) { return nil, errNoReferences }

// compile compiles the schema of a capability: nil for one without. References are refused, so that to check a call costs no more than
// its data and the schema are long.
func (c Capability) compile() (*jsonschema.Schema, error) {
	if c.InputSchema() == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	if refers(c.InputSchema()) {
		return nil, errNoReferences
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nothing{})
	const name = "mem:input"
	if err := compiler.AddResource(name, c.InputSchema()); err != nil {
		return nil, err
	}
	return compiler.Compile(name)
}

// refers reports whether a schema has a reference anywhere.
func refers(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if name == "$ref" || name == "$dynamicRef" || name == "$recursiveRef" || refers(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, refers)
	}
	return false
}

// checkSchema refuses a capability whose schema is none.
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
		return fault.New(fault.InvalidFormat, "the input schema of %s is no JSON Schema (2020-12) without references: %s", clip(c.Name), clip(firstLine(err))).
			WithField("capabilities.parameters.inputSchema")
	}
	return nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// wanted is what a call of AGENT_TASK asks for.
type wanted struct {
	Requires []string `json:"requires"`
	Data     any      `json:"data"`
}

// takes returns why a member does not take the data of a call that is for its capabilities; nil when it does.
func (m *Member) takes(w wanted) *fault.Error {
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

// wrongInput names the first field that a schema does not take.
func wrongInput(agent, capability string, e *jsonschema.ValidationError) *fault.Error {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	field := strings.Join(append([]string{"data"}, e.InstanceLocation...), ".")
	return fault.New(fault.ValidationError, "the capability %s of the agent %s does not take it: %s", capability, agent,
		e.ErrorKind.LocalizedString(message.NewPrinter(language.English))).
		WithField(field).WithReason("INPUT_SCHEMA").WithHint("orch agents card %s shows the agent; its schema is in orch agents -o json", agent)
}

// unfit ends a call that an agent must not be given, because its data is not what the capability takes: it goes to an agent that takes
// it, if there is one, and fails otherwise. It reports whether it has ended the call.
func (d *Dispatcher) unfit(ctx context.Context, m Member, call work.Call) (bool, error) {
	w := wanted{Data: map[string]any{}}
	if !m.hasSchemas() || json.Unmarshal(call.Args, &w) != nil {
		return false, nil //nolint:nilerr // what is no such call is refused on its way
	}
	why := m.takes(w)
	if why == nil {
		return false, nil
	}
	out := work.Outcome{Ref: call.Ref, Worker: m.Actor(), StartedAt: events.Time(d.clock()), Error: why, Class: fault.ClassInvalidArgs}
	if other := d.whoTakes(ctx, call, w); other != "" {
		handed := out
		handed.Error = fault.New(fault.Unavailable, "the agent %s has not been given the call: %s", m.Name, why.Message)
		handed.Class, handed.HandTo = fault.ClassHandoff, &events.Agents{Agent: other, Requires: slices.Sorted(slices.Values(w.Requires))}
		if err := d.tell(ctx, handed); !refusedHandover(err) {
			return true, err
		}
	}
	return true, d.tell(ctx, out)
}

func refusedHandover(err error) bool {
	return fault.Has(err, fault.Forbidden) || fault.Has(err, fault.ApprovalRequired)
}

func (m *Member) hasSchemas() bool {
	return slices.ContainsFunc(m.Capabilities, func(c Capability) bool { return c.InputSchema() != nil })
}

// whoTakes is a registered agent that can do what a call asks for and takes its data, best one that was heard of; "" for none.
func (d *Dispatcher) whoTakes(ctx context.Context, call work.Call, w wanted) (name string) {
	members, err := d.registry.Agents(ctx)
	if err != nil {
		return ""
	}
	for _, v := range members {
		able := !slices.ContainsFunc(w.Requires, func(c string) bool { return !slices.Contains(v.Names(), c) })
		mine := v.For == "" || v.For == call.Requester
		if !able || !mine || v.takes(w) != nil {
			continue
		}
		if name == "" || v.Status != Offline {
			name = v.Name
		}
	}
	return name
}
