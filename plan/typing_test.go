package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// typedOptions returns options with the tools OPEN, with an output that may have more fields, and SHUT, with an output
// of exactly these fields.
func typedOptions() plan.Options {
	schemas := map[string]string{
		"OPEN": `{"type":"object","properties":{"state":{"enum":["up","down"]},"n":{"type":"integer"}}}`,
		"SHUT": `{"type":"object","additionalProperties":false,"properties":{"exit_code":{"type":"integer"},"any":{},"maybe":{"type":["null","string"]},
			"rows":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"kind":{"type":"string","enum":["a","b"]}}}},
			"other":{"anyOf":[{"type":"string"},{"type":"object"}]},"map":{"type":"object","additionalProperties":{"type":"string"}}}}`,
		"NONE": `true`,
	}
	return plan.Options{Tool: func(name string) (plan.ToolInfo, bool) {
		text, ok := schemas[name]
		return plan.ToolInfo{Name: name, Output: func() json.RawMessage { return json.RawMessage(text) }}, ok
	}}
}

// seeing returns a plan with one step of each kind and an expression about them in line 13.
func seeing(expression string) string {
	return `orch: v1
inputs: {properties: {env: {enum: [dev, prod]}, free: {type: string}}}
steps:
  - {id: ok, approve: {description: d, on_reject: continue, form: {type: object, additionalProperties: false, properties: {size: {enum: [s, m]}}}}}
  - {id: plain, approve: {description: d}}
  - {id: open, tool: OPEN}
  - {id: shut, tool: SHUT}
  - {id: none, tool: NONE}
  - {id: each, for_each: '[1, 2]', do: [{id: row, tool: SHUT}, {id: ask, approve: {description: d}}]}
  - {id: nap, wait: {for: 1s}}
  - {id: sub, run: {orch: v1, steps: [{id: x, set: {y: 1}}], outputs: {total: '${{ steps.x.output.y }}', fixed: text}}}
  - {id: put, set: {n: 1, deep: {a: '${{ inputs.env }}'}, text: 'a ${{ inputs.env }}'}}
  - {id: z, set: {v: '${{ ` + strings.ReplaceAll(expression, "'", "''") + ` }}'}}
`
}

func TestOutputsAreTyped(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`steps.ok.output.status == "approved"`:                            "13:53: steps[9].set.v: `steps.ok.output.status` is never \"approved\" (did you mean granted?)",
		`"grantd" != steps.ok.output?.status`:                             "",
		`steps.ok.output.stauts == "granted"`:                             "`steps.ok.output` has no field \"stauts\" (did you mean status?)",
		`steps.ok.output.form.size == "l"`:                                "`steps.ok.output.form.size` is never \"l\" (it is one of s, m)",
		`steps.ok.output.form.colour`:                                     "`steps.ok.output.form` has no field \"colour\" (it has size)",
		`steps.plain.output.form.x`:                                       "`steps.plain.output.form` has no fields, so no \"x\"",
		`steps.open.output.state == "on"`:                                 "`steps.open.output.state` is never \"on\" (it is one of up, down)",
		`steps.open.output.n == "1"`:                                      "`steps.open.output.n` is never the text \"1\": it is a number",
		`steps.shut.output.exitcode == 0`:                                 "`steps.shut.output` has no field \"exitcode\" (did you mean exit_code?)",
		`count(steps.shut.output.rows, .kind == "c")`:                     "`.kind` is never \"c\" (it is one of a, b)",
		`steps.shut.output.rows[0].kin`:                                   "`steps.shut.output.rows[0]` has no field \"kin\" (did you mean kind?)",
		`filter(steps.each.output, .ask.status in ["granted", "denied"])`: "`.ask.status` is never \"denied\" (did you mean rejected?)",
		`map(steps.each.output, .raw.exit_code)`:                          "`#` has no field \"raw\" (did you mean row?)",
		`steps.nap.output.x`:                                              "`steps.nap.output` has no fields, so no \"x\"",
		`steps.sub.output.totl`:                                           "`steps.sub.output` has no field \"totl\" (did you mean total?)",
		`steps.put.output.deep.b`:                                         "`steps.put.output.deep` has no field \"b\" (it has a)",
		`steps.put.output.n == "1"`:                                       "`steps.put.output.n` is never the text \"1\": it is a number",
		`steps.shut.state == "success" ? 1 : 2`:                           "`steps.shut.state` is never \"success\" (did you mean succeeded?)",
		`inputs.env == "prd"`:                                             "`inputs.env` is never \"prd\" (did you mean prod?)",
		`let s = steps.ok.output; s.statu`:                                "`s` has no field \"statu\" (did you mean status?)",
		`(steps.ok.output?.status ?? "none") == "approved"`:               "is never \"approved\" (did you mean granted?)",
	} {
		if want == "" {
			want = "`steps.ok.output?.status` is never \"grantd\" (did you mean granted?)"
		}
		_, err := plan.Parse("p.yaml", []byte(seeing(expression)), typedOptions())
		var ps plan.Problems
		require.ErrorAs(t, err, &ps, expression)
		assert.Contains(t, ps.Error(), want)
		assert.Len(t, ps, 1, expression)
		assert.Equal(t, 13, ps[0].Line, expression)
		assert.Equal(t, "steps[9].set.v", ps[0].Path)
	}
}

func TestWhatIsOpenIsNotRefused(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		`steps.ok.output.status == "granted"`, `steps.ok.output == nil`, `steps.ok.output.form.size in ["s", "m"]`, `steps.ok.output.approval_id`,
		`steps.open.output.more.fields == "x"`, `steps.none.output.x.y == "1"`, `steps.shut.output.any.thing == "x"`, `steps.shut.output.maybe == "x"`,
		`steps.shut.output.other.x == "y"`, `steps.shut.output.map.key == "x"`, `steps.each.output[0].error.message == "x"`,
		`map(steps.each.output, .row?.rows)`, `reduce(steps.each.output, #acc + 1, 0)`, `steps.sub.output.total.x == "y"`, `steps.sub.output.fixed == "other"`,
		`steps.put.output.deep.a.x`, `steps.put.output.text == "a dev"`, `inputs.free == "anything"`, `inputs.env != ""`, `steps.shut.state == "skipped"`,
		`steps.shut.error.code == "TIMEOUT"`, `steps["shut"].output["exit_code"] == 1`, `sortBy(steps.shut.output.rows, .kind)[0].kind == "a"`,
		`groupBy(steps.shut.output.rows, .kind).a`, `steps.nap.output == nil`, `len(steps.each.output) == 2`,
	} {
		_, err := plan.Parse("p.yaml", []byte(seeing(expression)), typedOptions())
		assert.NoError(t, err, expression)
	}
}

// The output of the own call, and the items of a list, are typed, too.
func TestJudgementsAndItemsAreTyped(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "p.yaml:5:20: steps[0].expect: `output` has no field \"exit\" (it has any, exit_code, map, maybe, other, rows)",
		problems(t, steps("id: a", "tool: SHUT", "expect: output.exit == 0"), typedOptions()))
	assert.Equal(t, "p.yaml:5:19: steps[0].until: `output` has no field \"exit\" (it has any, exit_code, map, maybe, other, rows)",
		problems(t, steps("id: a", "tool: SHUT", "until: output.exit == 0", "max_rounds: 3"), typedOptions()))
	assert.Equal(t, "p.yaml:5:50: steps[0].verify.expect: `output.state` is never \"on\" (it is one of up, down)",
		problems(t, steps("id: a", "tool: SHUT", "verify: {tool: OPEN, expect: output.state == 'on'}"), typedOptions()))
	assert.Equal(t, "p.yaml:6:35: steps[1].do[0].if: `row.kind` is never \"c\" (it is one of a, b)",
		problems(t, steps("id: a", "tool: SHUT")+"  - {id: b, for_each: steps.a.output.rows, as: row,\n     do: [{id: c, if: row.kind == 'c', set: {x: 1}}]}\n", typedOptions()))
}

// A plan from the log was accepted before: newer checks of values do not reject it.
func TestRecordedPlansAreNotCheckedForValues(t *testing.T) {
	t.Parallel()
	p, err := plan.Parse("p.yaml", []byte(seeing(`steps.ok.output.status == "granted"`)), typedOptions())
	require.NoError(t, err)
	_, err = plan.Compile([]byte(strings.Replace(string(p.JSON()), `== \"granted\"`, `== \"approved\"`, 1)))
	assert.NoError(t, err)
}
