package orch_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/orch-dev/orch"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools"
)

type text struct {
	Text string `json:"text" jsonschema:"A text"`
}

// shout is a tool of the examples.
func shout() tools.Tool {
	return tools.Define(tools.Spec{Name: "SHOUT", Purpose: "Say it louder", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval},
		func(_ context.Context, _ *tools.Env, in text) (text, error) {
			return text{strings.ToUpper(in.Text)}, nil
		})
}

// A program opens a node with a tool of its own, submits a plan, and waits for its end.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	node, err := orch.Open(ctx, orch.Options{Dir: dir, Tools: []tools.Tool{shout()}})
	if err != nil {
		panic(err)
	}
	defer func() { _ = node.Close() }()

	id, err := node.Submit(ctx, orch.Task{Plan: plan.New("greeting").
		Step("loud", plan.Call("SHOUT", text{"hello"})).
		Output("said", "steps.loud.output.text")})
	if err != nil {
		panic(err)
	}
	result, err := node.Wait(ctx, id)
	fmt.Println(result.State, string(result.Output), err)
	// Output:
	// DONE {"said":"HELLO"} <nil>
}

// A task waits for a signal of the program.
func ExampleNode_Signal() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	node, err := orch.Open(ctx, orch.Options{Dir: dir})
	if err != nil {
		panic(err)
	}
	defer func() { _ = node.Close() }()

	id, err := node.Submit(ctx, orch.Task{Plan: plan.New("order").Step("paid", plan.Signal("paid")).Output("by", "steps.paid.output.by"), Key: "order-7"})
	if err != nil {
		panic(err)
	}
	if err := node.Signal(ctx, id, "paid", map[string]string{"by": "ada"}); err != nil {
		panic(err)
	}
	result, err := node.Wait(ctx, id)
	fmt.Println(result.State, string(result.Output), err)
	// Output:
	// DONE {"by":"ada"} <nil>
}
