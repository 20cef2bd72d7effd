package node_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
)

// The status of a node with a store of its own has the space of the store and its limits.
func TestStatusHasTheSpaceOfTheStore(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Storage.MaxStore = 512 << 20
	n := start(t, cfg)
	run(t, n.API(), "orch: v1\nsteps:\n  - {id: a, set: {x: 1}}\n")
	s, err := n.API().Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	require.NotNil(t, s.Storage)
	assert.Positive(t, s.Storage.Used)
	assert.Positive(t, s.Storage.Free)
	assert.Positive(t, s.Storage.MinFree)
	assert.Equal(t, int64(512<<20), s.Storage.MaxStore)
}
