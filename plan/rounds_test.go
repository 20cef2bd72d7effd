package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

func TestSettled(t *testing.T) {
	t.Parallel()
	n := compile(t, steps("id: a", "tool: T", "until: output.state == 'ready'", "max_rounds: 3")).Node("a")
	assert.Equal(t, "1s", n.Delay.String())
	for _, tc := range []struct {
		output  string
		round   int
		settled bool
		message string
	}{
		{`{"state":"ready"}`, 3, true, ""},
		{`{"state":"pending"}`, 2, false, ""},
		{`{"state":"pending"}`, 3, false, `after 3 rounds the result is still not as awaited: output.state == 'ready', but output.state is "pending"`},
	} {
		settled, err := n.UntilMet(json.RawMessage(tc.output), tc.round)
		assert.Equal(t, tc.settled, settled, tc.output)
		if tc.message == "" {
			require.NoError(t, err)
			continue
		}
		assert.Equal(t, tc.message, fault.From(err).Message)
		assert.Equal(t, "ROUNDS_EXHAUSTED", fault.From(err).Reason)
		assert.True(t, plan.Unexpected(err))
	}
	settled, err := compile(t, steps("id: a", "tool: T")).Node("a").UntilMet(nil, 1)
	require.NoError(t, err)
	assert.True(t, settled)
}

func roundCases() []problemCase {
	call := func(more ...string) string {
		return steps(append([]string{"id: a", "tool: GIT_STATUS"}, more...)...)
	}
	return []problemCase{
		{"until for ever", call("until: output.ok"), "p.yaml:5:12: steps[0].until: `until` needs `max_rounds` (the step fails when it is still false after so many calls: `max_rounds: 60`)"},
		{"rounds without until", call("max_rounds: 3"), "p.yaml:3:5: steps[0]: `max_rounds` and `delay` belong to `until` (`retry` is for calls that fail)"},
		{"no rounds", call("until: output.ok", "max_rounds: 0"), "p.yaml:6:17: steps[0].max_rounds: must be a whole number from 1 to 10000"},
		{"until sees no steps", call("until: steps.a.output.ok", "max_rounds: 3"), "p.yaml:5:12: steps[0].until: the expression `steps.a.output.ok` is wrong: unknown name steps (texts need quotes; names here are output, round)"},
		{"until of set", steps("id: a", "set: {x: 1}", "until: 'true'"), "p.yaml:5:12: steps[0].until: a set step has no `until`"},
	}
}
