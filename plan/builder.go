package plan

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/orch-dev/orch/fault"
)

// Fields are keys of a step, or of another part of a plan, as in a plan file.
type Fields map[string]any

// Builder builds a plan in code. Its methods return the builder; a mistake is reported by MarshalJSON and Check.
type Builder struct {
	fields  Fields
	steps   []any
	inputs  Fields
	outputs Fields
	err     error
}

// New returns the builder of a plan with a name and no steps.
func New(name string) *Builder {
	return &Builder{fields: Fields{"orch": "v1", "name": name}, inputs: Fields{}, outputs: Fields{}}
}

// Call returns the fields of a step that calls a tool. args is any value whose JSON is an object.
func Call(tool string, args any) Fields { return Fields{"tool": tool, "with": args} }

// Signal returns the fields of a step that waits for a signal.
func Signal(name string) Fields { return Fields{"wait": Fields{"signal": name}} }

// Also adds fields, such as {"needs": …} or {"effect": "idempotent"}, and returns all of them.
func (f Fields) Also(more Fields) Fields {
	all := Fields{}
	for _, fields := range []Fields{f, more} {
		maps.Copy(all, fields)
	}
	return all
}

// Step adds a step.
func (b *Builder) Step(id string, fields Fields) *Builder {
	b.steps = append(b.steps, fields.Also(Fields{"id": id}))
	return b
}

// Input adds a required input with its JSON Schema.
func (b *Builder) Input(name string, schema Fields) *Builder {
	b.inputs[name] = schema
	return b
}

// Output adds an output: an expression such as steps.hello.output.text.
func (b *Builder) Output(name, expression string) *Builder {
	b.outputs[name] = "${{ " + expression + " }}"
	return b
}

// Set sets a key of the plan, such as labels or limits.
func (b *Builder) Set(key string, value any) *Builder {
	switch key {
	case "steps", "inputs", "outputs":
		b.err = fault.New(fault.ValidationError, "has a method of its own").WithField(key)
	default:
		b.fields[key] = value
	}
	return b
}

// MarshalJSON returns the plan as JSON, as far as it is built. It does not check the plan.
func (b *Builder) MarshalJSON() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	all := b.fields.Also(Fields{"steps": b.steps})
	if len(b.inputs) > 0 {
		all["inputs"] = Fields{"type": "object", "required": slices.Sorted(maps.Keys(b.inputs)), "properties": b.inputs}
	}
	if len(b.outputs) > 0 {
		all["outputs"] = b.outputs
	}
	return json.Marshal(all)
}

// Check returns the problems of the plan, as Load does.
func (b *Builder) Check(o Options) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	_, _, err = Load("plan", text, o)
	return err
}
