package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/orch-dev/orch/plan"
)

const greeting = `orch: v1
name: greeting
inputs:
  type: object
  required: [who]
  properties: {who: {type: string}}
steps:
  - id: hello
    set: {text: "hello ${{ inputs.who }}"}
  - id: shout
    set: {text: "${{ upper(steps.hello.output.text) }}"}
outputs:
  said: ${{ steps.shout.output.text }}
`

// Load checks a plan and works out its order: a step needs those that it refers to.
func ExampleLoad() {
	_, program, err := plan.Load("greeting.yaml", []byte(greeting), plan.Options{})
	if err != nil {
		panic(err)
	}
	for _, n := range program.Steps() {
		fmt.Println(n.ID, n.Needs)
	}
	// Output:
	// hello []
	// shout [hello]
}

// A plan that is not valid has all its problems, each with its place.
func ExampleProblems() {
	_, _, err := plan.Load("bad.yaml", []byte("orch: v1\nname: bad\nsteps:\n  - id: a\n    sett: {}\n"), plan.Options{})
	if problems, ok := errors.AsType[plan.Problems](err); ok {
		for _, p := range problems {
			fmt.Println(p.Line, p.Path, p.Message)
		}
	}
	// Output:
	// 4 steps[0] the step has no kind
	// 5 steps[0].sett unknown key "sett"
}

// Expressions are evaluated against the inputs and the results of other steps.
func ExampleNode_Set() {
	_, program, err := plan.Load("greeting.yaml", []byte(greeting), plan.Options{})
	if err != nil {
		panic(err)
	}
	inputs, err := program.CheckInputs(json.RawMessage(`{"who":"Ada"}`))
	if err != nil {
		panic(err)
	}
	set, err := program.Node("hello").Set(plan.Scope{Inputs: inputs})
	fmt.Println(string(set), err)
	_, err = program.CheckInputs(json.RawMessage(`{}`))
	fmt.Println(err)
	// Output:
	// {"text":"hello Ada"} <nil>
	// REQUIRED_FIELD: inputs.who: is missing
}

func ExampleGraph() {
	p, err := plan.Parse("greeting.yaml", []byte(greeting), plan.Options{})
	if err != nil {
		panic(err)
	}
	drawing, err := plan.Graph(p, "text")
	if err != nil {
		panic(err)
	}
	fmt.Print(drawing)
	// Output:
	// greeting
	// steps:
	//   hello  set text
	//   shout  set text  <- hello
}
