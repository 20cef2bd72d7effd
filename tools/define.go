package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/orch-dev/orch/fault"
)

// Func implements a tool. Errors of the file system and of the context get their code from package fault. Every other
// error that a user may see should be a *fault.Error.
type Func[In, Out any] func(ctx context.Context, env *Env, in In) (Out, error)

// Define returns a tool with the contract spec that runs do. In and Out are structs. Their JSON Schemas are inferred
// from the tags json and jsonschema, and from the rule tags in schema.go. A field with omitempty or omitzero is
// optional. Each schema is built on first use, because building all schemas of the catalogue would slow down every
// start of the program.
//
// Define accepts any types, but the first use panics when no schema can describe them: that is a programming error.
func Define[In, Out any](spec Spec, do Func[In, Out]) Tool {
	return &tool[In, Out]{
		spec:   spec,
		do:     do,
		input:  onceShape[In](),
		output: onceShape[Out](),
	}
}

func onceShape[T any]() func() *shape { return sync.OnceValue(shapeOf[T]) }

type tool[In, Out any] struct {
	spec          Spec
	do            Func[In, Out]
	input, output func() *shape
}

// Spec returns the contract.
func (t *tool[In, Out]) Spec() Spec { return t.spec }

// InputSchema returns a copy of the schema of In.
func (t *tool[In, Out]) InputSchema() json.RawMessage { return bytes.Clone(t.input().text) }

// OutputSchema returns a copy of the schema of Out.
func (t *tool[In, Out]) OutputSchema() json.RawMessage { return bytes.Clone(t.output().text) }

// Check validates args against the schema of In.
func (t *tool[In, Out]) Check(args json.RawMessage) (json.RawMessage, error) {
	return t.input().check(args)
}

// Call decodes the arguments, runs the function and encodes its result.
func (t *tool[In, Out]) Call(ctx context.Context, env *Env, args json.RawMessage) (json.RawMessage, error) {
	in, err := t.decode(args)
	if err != nil {
		return nil, err
	}
	out, err := t.do(ctx, env, in)
	if err != nil {
		return nil, fault.From(err)
	}
	return encode(out)
}

func (t *tool[In, Out]) decode(args json.RawMessage) (in In, err error) {
	if err := json.Unmarshal(args, &in); err != nil {
		return in, fault.Wrap(fault.ValidationError, err, "the arguments do not fit the tool "+t.spec.Name)
	}
	return in, nil
}

// encode is json.Marshal without the escaping for HTML, which would change the bytes of free objects.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the result cannot be encoded")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
