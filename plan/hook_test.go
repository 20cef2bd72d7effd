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

func push() plan.HookInfo {
	return plan.HookInfo{
		Name: "deploy", Delivery: "72d3162e", Headers: map[string]string{"x-github-event": "push"},
		Body: json.RawMessage(`{"ref":"refs/heads/main","commits":[{"id":"a"},{"id":"b"}],"repository":{"id":12345678901}}`),
	}
}

func TestHookRulesChooseDeliveries(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]bool{
		"": true, " ": true, "${{ true }}": true, "false": false,
		`hook.headers["x-github-event"] == "push" && hook.body.ref == "refs/heads/main"`: true,
		`hook.headers["x-github-event"] == "ping"`:                                       false,
		`hook.headers["missing"] == "x"`:                                                 false,
		`hook.body.missing?.deeper == 1`:                                                 false,
		`any(hook.body.commits, .id == "b")`:                                             true,
		`hook.name == "deploy" and hook.delivery startsWith "72"`:                        true,
	} {
		rules, err := plan.CompileHook(when, nil)
		require.NoError(t, err, when)
		chosen, err := rules.Chooses(push())
		require.NoError(t, err, when)
		assert.Equal(t, want, chosen, when)
	}
	for when, message := range map[string]string{
		"hook.body.ref":            "the expression gives a text, not true or false",
		"hook.body.nothing.x == 1": "failed",
		"fail(\"no\")":             "no",
	} {
		rules, err := plan.CompileHook(when, nil)
		require.NoError(t, err, when)
		_, err = rules.Chooses(push())
		require.ErrorContains(t, err, message, when)
		assert.True(t, fault.Has(err, fault.ValidationError), when)
	}
}

func TestHookRulesComputeValues(t *testing.T) {
	t.Parallel()
	rules, err := plan.CompileHook("", json.RawMessage(`{"inputs":{"ref":"${{ hook.body.ref }}","n":7,"text":"repo ${{ hook.body.repository.id }}","whole":"${{ hook }}"},"plain":[1,"x"]}`))
	require.NoError(t, err)
	out, err := rules.Values(plan.HookInfo{Name: "h", Body: json.RawMessage(`{"ref":"main","repository":{"id":12345678901}}`)})
	require.NoError(t, err)
	assert.JSONEq(t, `{"inputs":{"ref":"main","n":7,"text":"repo 12345678901","whole":{"name":"h","delivery":"","subject":"","headers":{},"body":{"ref":"main","repository":{"id":12345678901}}}},"plain":[1,"x"]}`, string(out))
}

func TestHookRulesNameTheirProblems(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ when, values, field, message string }{
		{"hook.body.ref = 1", ``, "when", "unexpected token"},
		{"steps.a.output", ``, "when", "unknown name steps"},
		{"hook.nme == \"x\"", ``, "when", "unknown field nme"},
		{strings.Repeat("x", plan.MaxExpression+1), ``, "when", "an expression has at most"},
		{"", `{"inputs":{"a":"${{ inputs.b }}"}}`, "inputs.a", "unknown name inputs"},
		{"", `{"signal":{"task":"${{ hook.body.task"}}`, "signal.task", ""},
	} {
		_, err := plan.CompileHook(tc.when, json.RawMessage(tc.values))
		require.ErrorContains(t, err, tc.message, tc.when)
		assert.Equal(t, tc.field, fault.From(err).Field, tc.when)
		assert.True(t, fault.Has(err, fault.ValidationError), "%v", err)
	}
}
