package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

func TestSwitch(t *testing.T) {
	t.Parallel()
	const cases = "cases: {prod: [{id: b, set: {x: 1}}, {id: c, needs: [b], set: {x: 1}}], '2': [], 'true': []}"
	pr := compile(t, "orch: v1\ninputs: {additionalProperties: true}\nsteps:\n  - id: a\n    switch: inputs.x\n    "+cases+"\n    default: [{id: d, set: {x: 1}}]\n"+
		"  - {id: e, needs: [a], set: {x: 1}}\n  - {id: f, set: {x: '${{ steps.b.output }}'}}\n")
	needs := map[string][]string{}
	for _, n := range pr.Steps() {
		needs[n.ID] = n.Needs
	}
	assert.Equal(t, map[string][]string{"a": nil, "b": {"a"}, "c": {"a", "b"}, "d": {"a"}, "e": {"a", "b", "c", "d"}, "f": {"b"}}, needs)
	for x, want := range map[string]struct{ output, b, d string }{
		`"prod"`: {`{"case":"prod","default":false}`, "", `the switch a has chosen the case "prod"`},
		`2`:      {`{"case":"2","default":false}`, `the switch a has chosen the case "2"`, `the switch a has chosen the case "2"`},
		`true`:   {`{"case":"true","default":false}`, `the switch a has chosen the case "true"`, `the switch a has chosen the case "true"`},
		`"test"`: {`{"case":"test","default":true}`, `the switch a has chosen the case "test"`, ""},
		`null`:   {`{"case":"","default":true}`, `the switch a has chosen the case ""`, ""},
	} {
		output, err := pr.Node("a").Choose(plan.Scope{Inputs: json.RawMessage(`{"x":` + x + `}`)})
		require.NoError(t, err)
		assert.Equal(t, want.output, string(output))
		sc := plan.Scope{Step: func(string) (plan.StepResult, bool) { return plan.StepResult{Output: output}, true }}
		assert.Equal(t, want.b, pr.Node("b").CaseSkipReason(sc), x)
		assert.Equal(t, want.b, pr.Node("c").CaseSkipReason(sc), x)
		assert.Equal(t, want.d, pr.Node("d").CaseSkipReason(sc), x)
		assert.Empty(t, pr.Node("e").CaseSkipReason(sc))
	}
	assert.Equal(t, "the switch a has chosen no case", pr.Node("d").CaseSkipReason(plan.Scope{}))
	of, name := pr.Node("d").Branch()
	assert.Equal(t, "a default", of+" "+name)

	strict := compile(t, "orch: v1\ninputs: {additionalProperties: true}\nsteps: [{id: a, switch: inputs.x, cases: {prod: [], test: []}}]\n").Node("a")
	for x, message := range map[string]string{
		`"prd"`: `step "a": there is no case for "prd"`,
		`null`:  "step \"a\": the expression `inputs.x` of switch gives null, and there is no `default`",
		`[1]`:   "step \"a\": the expression `inputs.x` of switch gives a list, and there is no `default`",
	} {
		_, err := strict.Choose(plan.Scope{Inputs: json.RawMessage(`{"x":` + x + `}`)})
		assert.Equal(t, message, fault.From(err).Message)
		assert.True(t, fault.Has(err, fault.ValidationError))
	}
}

// Switches can be nested, and used within a for_each.
func TestSwitchWithin(t *testing.T) {
	t.Parallel()
	pr := compile(t, `
orch: v1
defaults: {timeout: 5s}
steps:
  - id: outer
    switch: '"x"'
    cases:
      x:
        - id: inner
          switch: task.name
          cases: {y: [{id: deep, tool: T}], z: [{id: other, tool: U}]}
  - {id: after, needs: [outer], set: {x: 1}}
  - id: each
    for_each: '[1, 2]'
    do:
      - id: pick
        switch: item
        cases: {"1": [{id: one, set: {x: 1}}]}
        default: [{id: more, set: {x: "${{ item }}"}}]
      - {id: last, set: {x: "${{ steps.one.output ?? steps.more.output }}"}}
`)
	assert.Equal(t, []string{"deep", "inner", "other", "outer"}, pr.Node("after").Needs)
	assert.Equal(t, []string{"inner"}, pr.Node("deep").Needs)
	assert.Equal(t, "5s", pr.Node("deep").Timeout.String())
	assert.Equal(t, []string{"T", "U"}, pr.Plan().Tools())
	var children []string
	for _, n := range pr.Node("each").Children {
		children = append(children, n.ID)
	}
	assert.Equal(t, []string{"pick", "one", "more", "last"}, children)
	drawn, err := plan.Graph(pr.Plan(), "text")
	require.NoError(t, err)
	assert.Contains(t, drawn, "switch task.name")
}

func switchCases() []problemCase {
	const inputs = "orch: v1\ninputs: {properties: {env: {enum: [prod, test]}, dry: {type: boolean, default: false}}, required: [env]}\nsteps:\n"
	return []problemCase{
		{"no cases", steps("id: a", "switch: '1'"), "p.yaml:3:5: steps[0]: switch needs at least one case (such as `cases: {prod: [...], test: [...]}`)"},
		{"empty cases", steps("id: a", "switch: '1'", "cases: {}"), "p.yaml:5:12: steps[0].cases: switch needs at least one case (such as `cases: {prod: [...], test: [...]}`)"},
		{"case is no list", steps("id: a", "switch: '1'", "cases: {x: {id: b}}"), "p.yaml:5:16: steps[0].cases.x: is an object, but a list is expected"},
		{"step of a case", steps("id: a", "switch: '1'", "cases: {x: [{id: b, set: {y: '${{ steps.nope.output }}'}}]}"), "p.yaml:5:39: steps[0].cases.x[0].set.y: there is no step \"nope\""},
		{"same id in cases", steps("id: a", "switch: '1'", "cases: {x: [{id: b, set: {y: 1}}], z: [{id: b, set: {y: 1}}]}"), `p.yaml:5:49: steps[0].cases.z[0].id: the id "b" occurs here for the second time (the first is in steps)`},
		{"needs another case", steps("id: a", "switch: '1'", "cases: {x: [{id: b, set: {y: 1}}], z: [{id: c, needs: [b], set: {y: 1}}]}"), `p.yaml:5:44: steps[0].cases.z[0]: the step needs "b", which is in another case of the same switch (only one case runs)`},
		{"never this case", inputs + "  - {id: a, switch: inputs.env, cases: {prd: [], test: []}, default: []}\n", "p.yaml:4:46: steps[0].cases.prd: `inputs.env` is never \"prd\" (did you mean prod?)"},
		{"case left out", inputs + "  - {id: a, switch: inputs.env, cases: {prod: []}}\n", "p.yaml:4:21: steps[0].switch: there is no case for \"test\" (add one, or a `default`)"},
		{"case of a boolean", inputs + "  - {id: a, switch: inputs.dry, cases: {'yes': []}, default: []}\n", "p.yaml:4:48: steps[0].cases.yes: `inputs.dry` is never \"yes\" (it is one of false, true)"},
		{"circle through a switch", steps("id: a", "switch: steps.b.output", "cases: {x: [{id: b, set: {y: 1}}]}"), `p.yaml:3:5: steps[0]: the steps need each other: a -> b -> a`},
		{"case of an answer", steps("id: ok", "approve: {description: Go on, on_reject: continue}") + "  - {id: a, switch: steps.ok.output.status, cases: {approved: []}, default: []}\n", "p.yaml:5:63: steps[1].cases.approved: `steps.ok.output.status` is never \"approved\" (did you mean granted?)"},
		{"never chosen", steps("id: a", "switch: '1'", "cases: {prod: []}") + "  - {id: b, if: steps.a.output.case == 'prd', set: {x: 1}}\n", "p.yaml:6:40: steps[1].if: `steps.a.output.case` is never \"prd\" (did you mean prod?)"},
		{"default of a tool", steps("id: a", "tool: GIT_STATUS", "default: []"), "p.yaml:5:14: steps[0].default: a tool step has no `default`"},
		{"for_each in a case in do", steps("id: a", "for_each: '[1]'", "do:", "  - {id: s, switch: '1', cases: {x: [{id: b, for_each: '[1]', do: [{id: c, set: {x: 1}}]}]}}"), "p.yaml:6:42: steps[0].do[0].cases.x[0]: a for_each within a for_each is not supported (put the inner one into a plan and use `run`)"},
	}
}
