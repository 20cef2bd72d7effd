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

// An expression that can never choose anything is found without a delivery.
func TestHookRulesThatNeverChoose(t *testing.T) {
	t.Parallel()
	for when, message := range map[string]string{
		"1": "a number", "1.5 + 1": "a number", `"push"`: "a text", "[true]": "a list", `{"a": true}`: "an object", "nil": "null", `"a" + "b"`: "a text",
		"len(hook.headers)": "a number", "hook.body.n > 1 ? \"a\" : \"b\"": "a text", `fail("no")`: "no", "toJSON(hook.body)": "a text",
	} {
		_, err := plan.CompileHook(when, nil)
		require.NoError(t, err, "a stored definition is compiled: %s", when)
		err = plan.CheckHook(when, nil)
		require.ErrorContains(t, err, message, when)
		assert.Equal(t, "when", fault.From(err).Field, when)
		assert.True(t, fault.Has(err, fault.ValidationError), when)
	}
	for _, when := range []string{"", "true", "${{ false }}", "1 == 2", "hook.body", "hook.body.ok", "hook.body.ok ?? false", "not hook.body.ok", `hook.body.a.b == "x"`, "any(hook.body, # > 1)", "hook.body.fails.here == 1"} {
		require.NoError(t, plan.CheckHook(when, nil), when)
	}
	err := plan.CheckHook("true", json.RawMessage(`{"inputs":{"a":"${{ inputs.b }}"}}`))
	assert.Equal(t, "inputs.a", fault.From(err).Field, "the values are checked too: %v", err)
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
