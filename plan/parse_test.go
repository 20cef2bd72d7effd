package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// problems parses a plan that must be wrong and returns its problems as text.
func problems(t *testing.T, src string, opt plan.Options) string {
	t.Helper()
	_, err := plan.Parse("p.yaml", []byte(src), opt)
	require.Error(t, err)
	require.True(t, fault.Has(err, fault.InvalidPlan))
	var ps plan.Problems
	require.ErrorAs(t, err, &ps)
	return ps.Error()
}

const head = "orch: v1\nsteps:\n"

// steps returns a plan with its first step at line 3, column 5.
func steps(lines ...string) string { return head + "  - " + strings.Join(lines, "\n    ") + "\n" }

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, tc := range problemTable() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.want, problems(t, tc.src, exampleOptions()))
		})
	}
}

type problemCase struct{ name, src, want string }
