package plan_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// FuzzParse checks that no input makes the parser panic, and that accepted plans have a stable normal form.
func FuzzParse(f *testing.F) {
	for _, tc := range problemTable() {
		f.Add([]byte(tc.src))
	}
	for _, name := range []string{"repo-report", "verify-go", "fan-out", "count-matches"} {
		src, err := os.ReadFile(exampleDir + "/" + name + ".yaml")
		require.NoError(f, err)
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := plan.Parse("p.yaml", src, plan.Options{Warn: func(plan.Problem) {}})
		if err == nil {
			assertFixedPoint(t, p)
		}
	})
}

// FuzzExpression checks that no expression makes the compiler or the VM panic, and that its value is JSON.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{
		"inputs.a + 1", `map(inputs.list, #.x)`, `steps.s.output?.y ?? "z"`, `"a ${{ 1 }}"`, "toPairs(groupBy([1,2],#))",
		"toJSON(inputs)", `fromJSON("[1]")`, "1..5", `date("2024-01-01")`, `let x = 1; x`, "{a: 1}", "keys({b: 1, a: 2})",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		src, err := json.Marshal(map[string]any{
			"orch": "v1", "inputs": map[string]any{"additionalProperties": true},
			"steps": []any{
				map[string]any{"id": "s", "set": map[string]any{"y": 1}},
				map[string]any{"id": "t", "set": map[string]any{"x": "${{" + source + "}}", "y": "a${{" + source + "}}"}, "needs": []string{"s"}},
			},
		})
		require.NoError(t, err)
		p, err := plan.Parse("p.json", src, plan.Options{})
		if err != nil {
			return
		}
		pr, err := p.Program()
		require.NoError(t, err)
		out, err := pr.Node("t").Set(plan.Scope{
			Inputs: json.RawMessage(`{"a":1,"list":[{"x":1}],"big":123456789012345678901234567890}`),
			Step: func(string) (plan.StepResult, bool) {
				return plan.StepResult{State: "succeeded", Output: json.RawMessage(`{"y":"v"}`)}, true
			},
		})
		if err == nil {
			require.True(t, json.Valid(out), "%s", out)
		}
	})
}
