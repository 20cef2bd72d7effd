package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

func TestSelects(t *testing.T) {
	t.Parallel()
	a := &plan.Agent{Tools: []string{"FILE_*", "!FILE_DELETE", "GREP_SEARCH", "git__*"}}
	for tool, want := range map[string]bool{
		"FILE_READ": true, "FILE_DELETE": false, "GREP_SEARCH": true, "GREP": false, "git__log": true, "BASH_EXECUTE": false,
	} {
		assert.Equal(t, want, a.Selects(tool), tool)
	}
	assert.False(t, (&plan.Agent{}).Selects("FILE_READ"), "nothing is selected by default")
}

// An agent file is a plan with one step, whose prompt is an input.
func TestAgentFile(t *testing.T) {
	t.Parallel()
	p, pr, err := plan.Load("/x/reviewer.yaml", []byte("description: Reviews Go.\nmodel: m/x\ninstructions: Review.\ntools: [FILE_READ]\nmax_turns: 7\n"), plan.Options{})
	require.NoError(t, err)
	assert.Equal(t, "agent reviewer", p.Name)
	assert.Equal(t, "Reviews Go.", p.Summary)
	for given, want := range map[string]plan.Persona{
		`{"prompt":"go"}`:               {Model: "m/x", Fallback: []string{}, Instructions: "Review.", Prompt: "go"},
		`{"prompt":"go","model":"m/y"}`: {Model: "m/y", Fallback: []string{}, Instructions: "Review.", Prompt: "go"},
	} {
		inputs, err := pr.CheckInputs([]byte(given))
		require.NoError(t, err)
		persona, err := pr.Steps()[0].Persona(plan.Scope{Inputs: inputs})
		require.NoError(t, err)
		assert.Equal(t, want, persona)
	}
	_, err = pr.CheckInputs([]byte(`{}`))
	require.Error(t, err)
	compiled, err := plan.Compile(p.JSON())
	require.NoError(t, err)
	assert.Equal(t, 7, compiled.Steps()[0].Agent.MaxTurns)
}

func TestAgentFilesThatAreWrong(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"model: m/x\ncolour: red\n":             "p.yaml:2:1: colour: unknown key \"colour\"",
		"model: m/x\nresult: {type: 3}\n":       "p.yaml:2:9: result: the result is not a JSON Schema: /type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'",
		"instructions: x\ntools: [READ]\n":      "p.yaml:1:1: the key `orch` is missing (begin the plan with `orch: v1`)\np.yaml:1:1: the key `steps` is missing (a plan has at least one step)\np.yaml:1:1: instructions: unknown key \"instructions\"\np.yaml:2:1: tools: unknown key \"tools\"",
		"model: m/x\nprompt: '${{ inputs.n }}'": "p.yaml:2:14: agent.prompt: there is no input \"n\" (declare it below inputs.properties)",
	} {
		assert.Equal(t, want, problems(t, src, plan.Options{}))
	}
	assert.Equal(t, "p.yaml:2:14: description: has more than 200 characters",
		problems(t, "model: m/x\ndescription: "+strings.Repeat("x", plan.MaxDescription+1), plan.Options{}))
}
