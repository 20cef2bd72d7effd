package orchestrator_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
)

// A tool that needs to know it hears whether its caller sees the tasks of all; others do not hear it.
func TestSightOfCallers(t *testing.T) {
	t.Parallel()
	blind := func(context.Context, *tools.Env, struct{}) (struct{}, error) { return struct{}{}, nil }
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
		spec := tools.Spec{Name: "SEES", Purpose: "test", Effect: tools.Read, Gate: tools.InProgress, Approval: tools.NoApproval, NeedsSight: true}
		sees := tools.Define(spec, blind)
		spec.Name, spec.NeedsSight = "BLIND", false
		c.Catalogue, _ = tools.New(sees, tools.Define(spec, blind))
	})
	const child = `orch: v1
steps: [{id: s, run: {orch: v1, steps: [{id: a, tool: SEES}]}}]
`
	for _, tc := range []struct {
		who, keysOf, plan string
		want              bool
	}{
		{"user:ada", "", "orch: v1\nsteps: [{id: a, tool: SEES}]\n", true},
		{"user:ada", "", "orch: v1\nsteps: [{id: a, tool: BLIND}]\n", false},
		{"user:ci", "user:ci", "orch: v1\nsteps: [{id: a, tool: SEES}]\n", false},
		{"agent:bot", "", "orch: v1\nsteps: [{id: a, tool: SEES}]\n", false},
		{"user:ada", "", child, true},
		{"user:ci", "user:ci", child, false},
	} {
		n.submit(tc.plan, by(tc.who), func(r *api.SubmitRequest) { r.KeysOf = tc.keysOf })
		call := n.take("w")
		assert.Equal(t, tc.want, call.SeesAll, "%s of %s", call.Tool, call.Requester)
		assert.Equal(t, tc.who, call.Requester)
		require.NoError(t, n.report("w", call, `{}`))
	}
}
