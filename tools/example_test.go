package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/orch-dev/orch/tools"
)

type shoutIn struct {
	Text  string `json:"text" jsonschema:"What to shout" minLength:"1"`
	Times int    `json:"times,omitempty" jsonschema:"How often" default:"1" minimum:"1" maximum:"3"`
}

type shoutOut struct {
	Text string `json:"text" jsonschema:"The shout"`
}

func ExampleDefine() {
	shout := tools.Define(tools.Spec{
		Name: "SHOUT", Purpose: "Say it louder", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval,
	}, func(_ context.Context, _ *tools.Env, in shoutIn) (shoutOut, error) {
		return shoutOut{Text: strings.Repeat(strings.ToUpper(in.Text), in.Times)}, nil
	})

	_, err := shout.Check(json.RawMessage(`{"txt":"hey"}`))
	fmt.Println(err)
	args, _ := shout.Check(json.RawMessage(`{"text":"hey"}`))
	fmt.Println(string(args))
	out, _ := shout.Call(context.Background(), nil, args)
	fmt.Println(string(out))
	// Output:
	// VALIDATION_ERROR: txt: is not a field of this tool
	// {"text":"hey","times":1}
	// {"text":"HEY"}
}
