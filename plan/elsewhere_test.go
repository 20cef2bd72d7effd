package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// elsewhereCases returns plans with keys and names of other formats, and the expected hints.
func elsewhereCases() []problemCase {
	return []problemCase{
		{"command", steps("id: a", "command: make", "set: {x: 1}"), "p.yaml:4:5: steps[0].command: unknown key \"command\" (call a tool: `tool: BASH_EXECUTE` with `with: {command: ...}`)"},
		{"run of a command", steps("id: a", "run: go test ./..."), "p.yaml:4:10: steps[0].run: the plan \"go test ./...\" cannot be read: open go test ./...: no such file or directory (`run` names the file of a plan; a command is `tool: BASH_EXECUTE` with `with: {command: ...}`)"},
		{"interval", steps("id: a", "tool: GIT_STATUS", "until: output.ok", "max_rounds: 2", "interval: 5s"), `p.yaml:7:5: steps[0].interval: unknown key "interval" (did you mean delay?)`},
		{"repeatPolicy", steps("id: a", "tool: GIT_STATUS", "repeatPolicy: {}"), "p.yaml:5:5: steps[0].repeatPolicy: unknown key \"repeatPolicy\" (write `until: <expression>`, `max_rounds` and `delay`)"},
		{"schedule", "orch: v1\nschedule: daily\nsteps: [{id: a, set: {x: 1}}]\n", "p.yaml:2:1: schedule: unknown key \"schedule\" (a plan has no schedule: let cron or a timer run `orch submit`)"},
		{"one equals sign", steps("id: a", "if: task.name = 'x'", "set: {x: 1}"), "p.yaml:4:19: steps[0].if: the expression `task.name = 'x'` is wrong: unexpected token Operator(\"=\") (compare with ==)"},
		{"github", steps("id: a", "if: github.ref == 'x'", "set: {x: 1}"), "p.yaml:4:9: steps[0].if: the expression `github.ref == 'x'` is wrong: unknown name github (pass it as an input: inputs.<name>)"},
		{"needs.x", steps("id: a", "set: {x: '${{ needs.b.result }}'}"), "p.yaml:4:19: steps[0].set.x: the expression `needs.b.result` is wrong: unknown name needs (write steps.<id>.output or steps.<id>.state)"},
		{"unknown need alone", steps("id: a", "needs: b", "set: {x: 1}"), `p.yaml:4:12: steps[0].needs[0]: there is no step "b"`},
	}
}

func TestItemsWrittenOut(t *testing.T) {
	t.Parallel()
	pr := compile(t, `
orch: v1
inputs: {properties: {last: {type: string}}}
steps:
  - {id: a, for_each: [one, 2, "${{ inputs.last }}"], do: [{id: b, set: {x: "${{ item }}"}}]}
  - {id: c, needs: a, set: {x: 1}}
`)
	items, err := pr.Node("a").Items(plan.Scope{Inputs: json.RawMessage(`{"last":"three"}`)})
	require.NoError(t, err)
	got, err := json.Marshal(items)
	require.NoError(t, err)
	assert.Equal(t, `["one",2,"three"]`, string(got))
	assert.Equal(t, []string{"a"}, pr.Node("c").Needs)
	drawn, err := plan.Graph(pr.Plan(), "text")
	require.NoError(t, err)
	assert.Contains(t, drawn, `for_each ["one",2,"${{ inputs.last }}"]`)
}
