package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

func TestExpected(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ expect, output, message string }{
		{"output.exit_code == 0", `{"exit_code":0}`, ""},
		{"output.exit_code == 0", `{"exit_code":3,"stdout":"o","stderr":" no\n such file\n"}`, "the result is not as expected: output.exit_code == 0, but output.exit_code is 3; stderr ends: no such file"},
		{"output.exit_code == 0", `{"exit_code":3,"stdout":"` + strings.Repeat("o", 500) + `"}`, "the result is not as expected: output.exit_code == 0, but output.exit_code is 3; stdout ends: …" + strings.Repeat("o", 400)},
		{"output.ok && output.a.b > 1", `{"ok":true,"a":{"b":1}}`, "the result is not as expected: output.ok && output.a.b > 1, but output.ok is true, output.a.b is 1"},
		{"output.stdout contains 'done'", `{"stdout":"` + strings.Repeat("x", 100) + `"}`, `the result is not as expected: output.stdout contains 'done', but output.stdout is "` + strings.Repeat("x", 79) + "…"},
		{"len(output) == 2", `[1]`, "the result is not as expected: len(output) == 2"},
		{"output == nil", `null`, ""},
		{"output.list[0] == 1", `{"list":[2]}`, "the result is not as expected: output.list[0] == 1"},
		{"output.missing == 'x'", `{}`, "the result is not as expected: output.missing == 'x', but output.missing is null"},
	} {
		n := compile(t, steps("id: a", "tool: T", `expect: "`+tc.expect+`"`)).Node("a")
		err := n.Expected(json.RawMessage(tc.output))
		if tc.message == "" {
			require.NoError(t, err, tc.expect)
			continue
		}
		f := fault.From(err)
		assert.Equal(t, tc.message, f.Message)
		assert.Equal(t, fault.ToolFailed, f.Code)
		assert.Equal(t, "UNEXPECTED_RESULT", f.Reason)
		assert.True(t, plan.Unexpected(err))
	}
	plain := compile(t, steps("id: a", "tool: T")).Node("a")
	require.NoError(t, plain.Expected(json.RawMessage(`{}`)))
	for _, expect := range []string{"output.n", "output.n > 1"} {
		err := compile(t, steps("id: a", "tool: T", "expect: "+expect)).Node("a").Expected(json.RawMessage(`{"n":"text"}`))
		assert.True(t, fault.Has(err, fault.ValidationError), "%v", err)
		assert.False(t, plan.Unexpected(err))
	}
}

func TestRetryWhen(t *testing.T) {
	t.Parallel()
	busy := plan.Attempt{Number: 2, Class: fault.ClassUnexpected, Code: "TOOL_FAILED", Message: "not as expected", Output: json.RawMessage(`{"stderr":"busy"}`)}
	denied := plan.Attempt{Number: 1, Class: fault.ClassDenied, Code: "FORBIDDEN", Message: "no"}
	for when, want := range map[string][2]bool{
		"true":                                {true, true},
		"output.stderr contains 'busy'":       {true, false}, // without an output the expression fails
		"error.class == 'unexpected'":         {true, false},
		"error.code == 'FORBIDDEN'":           {false, true},
		"error.message startsWith 'not'":      {true, false},
		"attempt == 1":                        {false, true},
		"output == nil || output.stderr=='x'": {false, true},
		"output":                              {false, false},
	} {
		n := compile(t, steps("id: a", "tool: T", `retry: {when: "`+when+`"}`)).Node("a")
		assert.Equal(t, want, [2]bool{n.RetryWhen(busy), n.RetryWhen(denied)}, when)
	}
	assert.True(t, compile(t, steps("id: a", "tool: T", "retry: {}")).Node("a").RetryWhen(denied))
}

// The name of an item may equal a name that is visible in retry.when.
func TestItemsNamedLikeAnAttempt(t *testing.T) {
	t.Parallel()
	pr := compile(t, "orch: v1\nsteps:\n  - {id: a, for_each: '[\"x\"]', as: error, do: [{id: b, set: {x: '${{ error + \"y\" }}'}}]}\n")
	require.NotNil(t, pr)
}
