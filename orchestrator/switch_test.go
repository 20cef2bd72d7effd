package orchestrator_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

const switching = `
orch: v1
inputs: {properties: {env: {type: string}}, required: [env]}
steps:
  - id: pick
    switch: inputs.env
    cases:
      prod:
        - {id: ask, tool: READ, with: {text: sure}}
        - {id: deploy, needs: [ask], tool: WRITE, with: {text: prod}}
      test: [{id: try, tool: WRITE, with: {text: test}}]
      none: []
  - {id: after, needs: [pick], tool: READ, with: {text: "${{ steps.deploy.output?.text ?? steps.try.output?.text ?? 'nothing' }}"}}
outputs: {after: "${{ steps.after.output.text }}", case: "${{ steps.pick.output.case }}"}
`

// One case of a switch runs, and steps that need the switch wait for the steps of that case.
func TestSwitchRunsOneCase(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(echoArgs)
	env := func(value string) func(*api.SubmitRequest) {
		return func(r *api.SubmitRequest) { r.Inputs = json.RawMessage(`{"env":"` + value + `"}`) }
	}
	for value, want := range map[string]struct {
		after string
		ran   []string
	}{
		"prod": {"prod", []string{"pick", "ask", "deploy", "after"}},
		"test": {"test", []string{"pick", "try", "after"}},
		"none": {"nothing", []string{"pick", "after"}},
	} {
		id := n.submit(switching, env(value))
		reply := n.result(id)
		require.Equal(t, statemachine.Done, reply.State, "%v", reply.Error)
		assert.JSONEq(t, `{"case":"`+value+`","after":"`+want.after+`"}`, string(reply.Output))
		var ran []string
		for _, s := range n.get(id).Steps {
			if s.State == statemachine.StepSucceeded {
				ran = append(ran, s.Key)
				continue
			}
			assert.Equal(t, statemachine.StepSkipped, s.State, s.Key)
			assert.Equal(t, `the switch pick has chosen the case "`+value+`"`, s.Reason)
		}
		assert.ElementsMatch(t, want.ran, ran)
	}
	id := n.submit(switching, env("stage"))
	reply := n.result(id)
	require.Equal(t, statemachine.Failed, reply.State)
	assert.Equal(t, fault.ValidationError, reply.Error.Code)
	assert.Contains(t, reply.Error.Message, `there is no case for "stage"`)
}

// A switch may be inside a for_each or a case of another switch, and may be skipped.
func TestSwitchesWithinOthers(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(echoArgs)
	id := n.submit(`
orch: v1
steps:
  - id: each
    for_each: '["a", "b", "c"]'
    do:
      - id: kind
        switch: item
        cases: {a: [{id: first, tool: READ, with: {text: "${{ item }}"}}]}
        default:
          - id: inner
            switch: item
            cases: {b: [{id: second, set: {text: second}}], c: []}
      - {id: last, needs: [kind], set: {text: "${{ steps.first.output?.text ?? steps.second.output?.text }}"}}
  - id: left_out
    if: "false"
    switch: '"x"'
    cases: {x: [{id: never, tool: WRITE}]}
outputs: {texts: "${{ map(steps.each.output, .last.text) }}", never: "${{ steps.never.state }}"}
`)
	reply := n.result(id)
	require.Equal(t, statemachine.Done, reply.State, "%v", reply.Error)
	assert.JSONEq(t, `{"texts":["a","second",null],"never":"skipped"}`, string(reply.Output))
}
