package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// Literal items, and items for the default inputs, are counted before a plan runs.
func TestTooManyItemsAreKnownAhead(t *testing.T) {
	t.Parallel()
	const do = "\n    do: [{id: a, set: {x: 1}}]\n"
	for _, c := range []struct{ text, problem, warning string }{
		{"orch: v1\nsteps:\n  - id: e\n    for_each: [" + strings.Repeat("1,", 10_000) + "1]" + do, "", ""},
		{"orch: v1\nsteps:\n  - id: e\n    for_each: 1..1000001" + do, "for_each has 1000001 items, more than 1000000", ""},
		{"orch: v1\nsteps:\n  - id: e\n    for_each: 1..1000000" + do, "", ""},
		{"orch: v1\nsteps:\n  - id: e\n    for_each: '7'" + do, "gives a number, not a list", ""},
		{"orch: v1\nsteps:\n  - id: e\n    matrix: {a: '${{ 1..200 }}', b: '${{ 1..200 }}'}" + do, "the matrix has more than 10000 items", ""},
		{"orch: v1\ninputs: {properties: {n: {type: integer, default: 1000002}}}\nsteps:\n  - id: e\n    for_each: 1..inputs.n" + do, "", "with the default inputs: for_each has 1000002 items"},
		{"orch: v1\ninputs: {properties: {n: {type: integer}}, required: [n]}\nsteps:\n  - id: e\n    for_each: 1..inputs.n" + do, "", ""},
		{"orch: v1\nsteps:\n  - id: e\n    for_each: ''" + do, "the expression is empty", ""},
		{"orch: v1\nsteps:\n  - id: e\n    for_each: 1..." + do, "the expression `1...` is wrong", ""},
		{"orch: v1\nsteps:\n  - id: e\n    for_each: nothing" + do, "unknown name nothing", ""},
		{"orch: v1\nsteps:\n  - {id: s, set: {n: 20000}}\n  - id: e\n    for_each: 1..steps.s.output.n" + do, "", ""},
	} {
		var warnings []string
		_, err := plan.Parse("p.yaml", []byte(c.text), plan.Options{Warn: func(p plan.Problem) { warnings = append(warnings, p.String()) }})
		if c.problem == "" {
			require.NoError(t, err, c.text[:40])
		} else {
			require.ErrorContains(t, err, c.problem)
		}
		assert.Contains(t, strings.Join(warnings, "\n"), c.warning)
		assert.Equal(t, c.warning == "", warnings == nil, "%v", warnings)
	}
}
