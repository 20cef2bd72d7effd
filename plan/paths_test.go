package plan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// A path that begins with a relative path cannot work, whatever its expressions return.
func TestRelativePathsAreWarnedOf(t *testing.T) {
	t.Parallel()
	const p = "p.yaml:4:35: steps[0].with.path: the path "
	for with, want := range map[string]string{
		`{path: src/a.txt}`:                  p + `"src/a.txt" is relative: calls of T take absolute paths only, and fail`,
		`{path: .}`:                          p + `"." is relative`,
		`{path: "src/${{ inputs.x }}"}`:      "steps[0].with.path: the path ",
		`{path: /src/a.txt}`:                 "",
		`{path: ""}`:                         "",
		`{path: 7}`:                          "",
		`{path: "${{ inputs.x }}"}`:          "",
		`{path: "${{ inputs.x }}/a.txt"}`:    "",
		`{path: "/a/${{ inputs.x }}", o: .}`: "",
		`"${{ inputs.x }}"`:                  "",
	} {
		var warnings []string
		opt := plan.Options{
			Tool: func(name string) (plan.ToolInfo, bool) {
				return plan.ToolInfo{Name: name, Paths: []string{"path"}}, true
			},
			Warn: func(p plan.Problem) { warnings = append(warnings, p.String()) },
		}
		_, err := plan.Parse("p.yaml", []byte(withInputs+"steps:\n  - {id: a, tool: T, with: "+with+"}\n"), opt)
		require.NoError(t, err, with)
		if want == "" {
			assert.Empty(t, warnings, with)
			continue
		}
		if assert.Len(t, warnings, 1, with) {
			assert.Contains(t, warnings[0], want, with)
			assert.Contains(t, warnings[0], "task.workspace", with)
		}
	}
}
