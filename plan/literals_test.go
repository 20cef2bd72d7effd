package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// strictOptions know a tool with a schema, which refuses whole arguments in words of its own.
func strictOptions() plan.Options {
	const schema = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
		"path":{"type":"string","minLength":1},"n":{"type":"integer","minimum":1},"mode":{"enum":["fast","slow"]},
		"deep":{"type":"object","required":["a"],"additionalProperties":false,"properties":{"a":{"type":"boolean"},"bee":{"type":"string"}}},
		"list":{"type":"array","items":{"type":"string"}},"map":{"type":"object","additionalProperties":{"type":"number"}},
		"free":{"type":"object"},"either":{"anyOf":[{"type":"string"},{"type":"number"}]}}}`
	check := func(args json.RawMessage) (json.RawMessage, error) {
		var v struct {
			Path any `json:"path"`
			List any `json:"list"`
		}
		if err := json.Unmarshal(args, &v); err != nil {
			return nil, fault.New(fault.ValidationError, "must be other")
		}
		if v.Path == "gone" {
			return nil, fault.New(fault.ToolDisabled, "not now")
		}
		if list, ok := v.List.([]any); ok && list[1] == "${{" {
			return nil, fault.New(fault.ValidationError, "must not be that").WithField("list[1]").WithHint("take another one")
		}
		return args, nil
	}
	return plan.Options{Tool: func(name string) (plan.ToolInfo, bool) {
		return plan.ToolInfo{
			Name: name, Input: func() json.RawMessage { return json.RawMessage(schema) }, Check: check,
			Required: []string{"path"}, Properties: []string{"path", "n", "mode", "deep", "list", "map", "free", "either"},
		}, name == "T"
	}}
}

const withInputs = "orch: v1\ninputs: {properties: {x: {}}}\n"

func TestLiteralsFitTheirTool(t *testing.T) {
	t.Parallel()
	for with, want := range map[string]string{
		`{path: p, list: [a, "$${{"]}`:                             "p.yaml:4:48: steps[0].with.list[1]: must not be that (take another one)",
		`{path: "${{ inputs.x }}", n: many}`:                       "p.yaml:4:57: steps[0].with.n: got string, want integer",
		`{path: "${{ inputs.x }}", n: 0}`:                          "p.yaml:4:57: steps[0].with.n: minimum: got 0, want 1",
		`{path: p, n: "${{ inputs.x }} lines"}`:                    "p.yaml:4:41: steps[0].with.n: must be a number, not a text",
		`{path: "${{ inputs.x }}", mode: fats}`:                    "p.yaml:4:60: steps[0].with.mode: value must be one of 'fast', 'slow' (did you mean fast?)",
		`{path: "${{ inputs.x }}", deep: {a: yes please, bee: b}}`: "p.yaml:4:64: steps[0].with.deep.a: got string, want boolean",
		`{path: p, deep: {be: "${{ inputs.x }}"}}`:                 "p.yaml:4:44: steps[0].with.deep: the field \"a\" is missing\np.yaml:4:49: steps[0].with.deep.be: there is no field \"be\" (did you mean bee?)",
		`{path: p, list: ["${{ inputs.x }}", 1]}`:                  "p.yaml:4:64: steps[0].with.list[1]: got number, want string",
		`{path: p, list: {a: "${{ inputs.x }}"}}`:                  "p.yaml:4:44: steps[0].with.list: must be a list, not an object",
		`{path: p, map: {a: "${{ inputs.x }}", b: c}}`:             "p.yaml:4:69: steps[0].with.map.b: got string, want number",
		`{path: p, n: "${{ inputs.x }}", either: true}`:            "p.yaml:4:68: steps[0].with.either: got boolean, want string",
	} {
		src := withInputs + "steps:\n  - {id: a, tool: T, with: " + with + "}\n"
		assert.Equal(t, want, problems(t, src, strictOptions()), with)
	}
}

func TestWhatIsNotKnownIsNotRefused(t *testing.T) {
	t.Parallel()
	for _, with := range []string{
		`{path: gone}`, `{path: "${{ inputs.x }}", n: null, deep: null}`, `{path: p, n: "${{ inputs.x }}", mode: "${{ inputs.x }}"}`,
		`{path: p, free: {a: ["${{ inputs.x }}", 1]}, either: "a ${{ inputs.x }}"}`, `"${{ inputs.x }}"`,
		`{path: p, deep: {a: "${{ inputs.x }}", bee: null}}`, `{path: p, map: {a: "${{ inputs.x }}", b: 1}}`,
	} {
		_, err := plan.Parse("p.yaml", []byte(withInputs+"steps:\n  - {id: a, tool: T, with: "+with+"}\n"), strictOptions())
		assert.NoError(t, err, with)
	}
}

// The check of a verify tool is the same, and so is that of the inputs of a sub-plan.
func TestLiteralsElsewhere(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "p.yaml:5:33: steps[0].verify.with.n: got string, want integer",
		problems(t, steps("id: a", "tool: T", "verify: {tool: T, with: {n: many, path: '${{ args.path }}'}, expect: 'true'}", "with: {path: p}"), strictOptions()))
	assert.Equal(t, "p.yaml:5:15: steps[0].with.n: got string, want integer",
		problems(t, steps("id: a", "run: {orch: v1, inputs: {properties: {n: {type: integer}}}, steps: [{id: b, set: {x: 1}}]}", "with: {n: many}"), strictOptions()))
}

// A schema with references is only checked by the tool itself: following them may not terminate.
func TestSchemasThatReferAreNotFollowed(t *testing.T) {
	t.Parallel()
	opt := plan.Options{Tool: func(string) (plan.ToolInfo, bool) {
		return plan.ToolInfo{Name: "T", Input: func() json.RawMessage {
			return json.RawMessage(`{"properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}`)
		}}, true
	}}
	_, err := plan.Parse("p.yaml", []byte(withInputs+"steps:\n  - {id: a, tool: T, with: {n: many, x: '${{ inputs.x }}'}}\n"), opt)
	require.NoError(t, err)
}
