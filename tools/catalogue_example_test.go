package tools_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/orch-dev/orch/tools"
)

type pathIn struct {
	Path string `json:"path" jsonschema:"Where"`
}

// A tool whose calls differ says what each would do. The policy judges that; the tool decides nothing.
func ExampleDefineIntent() {
	move := tools.DefineIntent(tools.Spec{
		Name: "FETCH", Purpose: "Fetch a page", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.ByIntent,
	}, func(_ context.Context, _ *tools.Env, in pathIn) (tools.Intent, error) {
		return tools.Intent{Effect: tools.Read, Targets: []tools.Target{{Kind: tools.Endpoint, Name: "https://docs.example.com:443"}}}, nil
	}, func(_ context.Context, _ *tools.Env, in pathIn) (pathIn, error) { return in, nil })

	says, ok := move.(tools.Intender)
	fmt.Println(ok)
	intent, err := says.Intent(context.Background(), nil, json.RawMessage(`{"path":"/a"}`))
	fmt.Println(intent.Effect, intent.Targets[0].Name, err)
	// Output:
	// true
	// read https://docs.example.com:443 <nil>
}

// A catalogue finds tools by name, and knows what was probably meant.
func ExampleNew() {
	echo := tools.Define(tools.Spec{Name: "ECHO", Purpose: "Repeat", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval},
		func(_ context.Context, _ *tools.Env, in pathIn) (pathIn, error) { return in, nil })
	catalogue, err := tools.New(echo)
	if err != nil {
		panic(err)
	}
	_, found := catalogue.Get("ECO")
	fmt.Println(catalogue.Names(), found, catalogue.Suggest("ECO"))
	_, err = tools.New(echo, echo)
	fmt.Println(err != nil)
	// Output:
	// [ECHO] false ECHO
	// true
}
