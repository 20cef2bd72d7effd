package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// A part of a for_each runs its items alone: without the steps around it, its needs and its condition.
func TestPart(t *testing.T) {
	t.Parallel()
	pr := compile(t, "orch: v1\nsteps:\n  - {id: a, set: {x: 1}}\n  - {id: each, needs: a, if: 'false', on_error: continue, for_each: '[1]', do: [{id: b, set: {x: '${{ steps.a.output.x }}'}}]}\n"+
		"  - {id: c, needs: each, set: {x: 1}}\nverify: [{id: v, tool: READ}]\nalways: [{id: z, for_each: '[1]', do: [{id: y, wait: {signal: go}}]}]\noutputs: {x: 1}\n")
	part := pr.Part("each")
	require.Len(t, part.Steps(), 1)
	assert.Empty(t, part.Verify())
	assert.Empty(t, part.Always())
	n := part.Node("each")
	assert.Same(t, part.Steps()[0], n)
	assert.Empty(t, n.Needs)
	assert.Empty(t, n.Dependants)
	assert.Zero(t, n.Position)
	assert.Equal(t, plan.OnErrorFail, n.OnError)
	wanted, err := n.If(plan.Scope{})
	require.NoError(t, err)
	assert.True(t, wanted)
	assert.Equal(t, pr.Node("each").Children, n.Children)
	assert.Equal(t, pr.Plan(), part.Plan())
	assert.Equal(t, []string{"a"}, pr.Node("each").Needs, "the program itself is unchanged")
	assert.Nil(t, pr.Part("a"))
	assert.Nil(t, pr.Part("none"))
	assert.Empty(t, n.WaitsForSignal())
	assert.Equal(t, "y", pr.Part("z").Node("z").WaitsForSignal())
}

// collect has three values, of which the default is no part of the normal form.
func TestCollect(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]plan.Collect{"all": "", "failed": plan.CollectFailed, "none": plan.CollectNone} {
		p, err := plan.Parse("p.yaml", []byte("orch: v1\nsteps: [{id: each, for_each: '[1]', collect: "+text+", do: [{id: a, set: {x: 1}}]}]\n"), plan.Options{})
		require.NoError(t, err)
		assert.Equal(t, want, p.Steps[0].Collect)
		assert.Equal(t, want != "", strings.Contains(string(p.JSON()), `"collect"`))
	}
	_, err := plan.Parse("p.yaml", []byte("orch: v1\nsteps: [{id: each, for_each: '[1]', collect: some, do: [{id: a, set: {x: 1}}]}]\n"), plan.Options{})
	require.ErrorContains(t, err, "all")
}
