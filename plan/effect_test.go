package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// A call has the effect that its literal arguments give it. What an expression gives is not known, and a declared effect counts first.
func TestEffectOfLiterals(t *testing.T) {
	t.Parallel()
	opt := plan.Options{Tool: func(string) (plan.ToolInfo, bool) {
		return plan.ToolInfo{Name: "HTTP", Effect: plan.EffectWrite, EffectOf: func(args json.RawMessage) plan.Effect {
			var in struct{ Method string }
			if err := json.Unmarshal(args, &in); err != nil {
				return ""
			}
			return map[string]plan.Effect{"GET": plan.EffectRead, "DROP": plan.EffectDestructive}[in.Method]
		}}, true
	}}
	for with, effect := range map[string]string{
		`{method: GET, url: 'https://x/${{ inputs.id }}'}`: "",
		`{method: GET}`:                  "",
		`{method: DROP}`:                 "a destructive call",
		`{method: POST}`:                 "a write call",
		`{method: '${{ inputs.id }}'}`:   "a write call",
		`'${{ inputs }}'`:                "a write call",
		`{method: GET}, effect: write`:   "a write call",
		`{method: POST}, effect: read`:   "",
		`{method: 'GE${{ inputs.id }}'}`: "a write call",
		`{url: x}`:                       "a write call",
		`{url: x}, effect: idempotent`:   "",
		`{method: [GET]}`:                "a write call",
	} {
		text := "orch: v1\ninputs: {properties: {id: {type: string}}}\nsteps: [{id: a, tool: HTTP, retry: {on: [timeout]}, with: " + with + "}]\n"
		_, err := plan.Parse("p.yaml", []byte(text), opt)
		if effect == "" {
			require.NoError(t, err, with)
			continue
		}
		require.Error(t, err, with)
		assert.Contains(t, err.Error(), effect+" is not repeated after timeout", with)
	}
}
