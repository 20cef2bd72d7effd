package node_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/node"
)

// A node keeps the index of lists beside its log, and lists and counts the same tasks after a restart.
func TestListsAfterARestart(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n, err := node.Start(t.Context(), cfg)
	require.NoError(t, err)
	for range 3 {
		run(t, n.API(), "orch: v1\nlabels: {type: x}\nsteps:\n  - {id: a, set: {x: 1}}\n")
	}
	request := api.ListRequest{Labels: map[string]string{"type": "x"}}
	before, err := n.API().List(t.Context(), request)
	require.NoError(t, err)
	require.Len(t, before.Tasks, 3)
	require.NoError(t, n.Stop(context.Background()))
	require.FileExists(t, filepath.Join(cfg.DataDir, "lists.idx"))

	n = start(t, cfg)
	after, err := n.API().List(t.Context(), request)
	require.NoError(t, err)
	assert.Equal(t, before, after)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		s, err := n.API().Status(t.Context(), api.StatusRequest{})
		require.NoError(c, err)
		assert.Equal(c, 3, s.Finished)
	}, time.Minute, 10*time.Millisecond)
	after, err = n.API().List(t.Context(), request)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}
