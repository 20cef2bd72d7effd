package plan_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// A plan that is built in code has the keys of a plan file.
func ExampleNew() {
	greeting := plan.New("greeting").
		Input("who", plan.Fields{"type": "string"}).
		Step("hello", plan.Fields{"set": plan.Fields{"text": "hello ${{ inputs.who }}"}}).
		Step("log", plan.Call("LOG_WRITE", plan.Fields{"level": "INFO", "message": "${{ steps.hello.output.text }}"}).Also(plan.Fields{"timeout": "5s"})).
		Output("said", "steps.hello.output.text")
	text, err := json.Marshal(greeting)
	if err != nil {
		panic(err)
	}
	_, program, err := plan.Load("greeting", text, plan.Options{})
	if err != nil {
		panic(err)
	}
	for _, n := range program.Steps() {
		fmt.Println(n.ID, n.Needs)
	}
	// Output:
	// hello []
	// log [hello]
}

func TestBuilder(t *testing.T) {
	t.Parallel()
	require.NoError(t, plan.New("ok").Step("a", plan.Signal("go")).Set("labels", plan.Fields{"team": "a"}).Check(plan.Options{}))

	err := plan.New("none").Check(plan.Options{})
	require.Error(t, err)
	assert.Contains(t, err.Error(), "steps")
	err = plan.New("unknown").Step("a", plan.Fields{"tol": "LOG_WRITE"}).Check(plan.Options{})
	require.Error(t, err)
	assert.Contains(t, err.Error(), "no kind")

	_, err = json.Marshal(plan.New("steps").Set("steps", []any{}))
	var coded *fault.Error
	require.ErrorAs(t, err, &coded)
	assert.Equal(t, "steps", coded.Field)

	shared := plan.Call("LOG_WRITE", plan.Fields{"level": "INFO", "message": "x"})
	twice := plan.New("twice").Step("a", shared).Step("b", shared)
	require.NoError(t, twice.Check(plan.Options{}), "fields are not changed by a step")
}
