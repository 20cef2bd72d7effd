package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// The needs that a switch implies are bounded, because steps outside of its cases may need each step within.
func TestNeedsAreBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		inside, outside int
		problem         string
	}{
		"many":     {inside: 300, outside: 300},
		"too many": {inside: 400, outside: 400, problem: "more than 100000 needs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := plan.Load("p.yaml", []byte(switchPlan(test.inside, test.outside)), plan.Options{Accepted: true})
			if test.problem == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.problem)
		})
	}
}

// switchPlan returns a plan with a switch, steps inside of its case, and steps that need it.
func switchPlan(inside, outside int) string {
	var text strings.Builder
	text.WriteString("orch: v1\nsteps:\n  - id: choose\n    switch: \"'x'\"\n    default: []\n    cases:\n      x:\n")
	for i := range inside {
		fmt.Fprintf(&text, "        - {id: in%d, set: {x: 1}}\n", i)
	}
	for i := range outside {
		fmt.Fprintf(&text, "  - {id: out%d, set: {x: 1}, needs: [choose]}\n", i)
	}
	return text.String()
}

// BenchmarkLoad is a plan of 10,000 steps of each shape.
func BenchmarkLoad(b *testing.B) {
	const steps = 9_900
	var chain, covered strings.Builder
	chain.WriteString("orch: v1\nsteps:\n  - {id: s0, set: {x: 1}}\n")
	covered.WriteString("orch: v1\nsteps:\n  - {id: s0, approve: {description: go, covers: [s1")
	for i := 2; i < steps; i++ {
		fmt.Fprintf(&covered, ", s%d", i)
	}
	covered.WriteString("]}}\n")
	for i := 1; i < steps; i++ {
		fmt.Fprintf(&chain, "  - {id: s%d, set: {x: 1}, needs: [s%d]}\n", i, i-1)
		fmt.Fprintf(&covered, "  - {id: s%d, tool: READ, needs: [s%d]}\n", i, i-1)
	}
	for name, text := range map[string]string{"chain": chain.String(), "covered": covered.String(), "switch": switchPlan(steps-300, 8)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := plan.Load("p.yaml", []byte(text), plan.Options{Accepted: true})
				require.NoError(b, err)
			}
		})
	}
}
