package node_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
)

// The next node shelves what a node that died has not shelved.
func TestNextNodeTidiesWorkspaces(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	working := filepath.Join(cfg.Root, "Working")
	n := start(t, cfg)
	archived := submit(t, n.API(), realWork)
	result(t, n.API(), archived)
	_, err := n.API().Archive(t.Context(), api.ArchiveRequest{Wait: time.Minute})
	require.NoError(t, err)
	over := submit(t, n.API(), realWork)
	result(t, n.API(), over)
	open := submit(t, n.API(), "orch: v1\nsteps:\n  - {id: w, wait: {for: 1h}}\n")
	require.NoError(t, n.Stop(t.Context()))

	put := filepath.Join(working, "Archive", "Completed", string(archived))
	left := filepath.Join(working, string(archived))
	require.NoError(t, os.Rename(put, left))
	for _, id := range []string{string(archived), string(over), string(open), "TASK_01JD0000000000000000000000", "TASK_other"} {
		require.NoError(t, os.MkdirAll(filepath.Join(working, id, "temp"), 0o755))
	}

	start(t, cfg)
	assert.Eventually(t, func() bool {
		_, errLeft := os.Stat(left)
		_, errTemp := os.Stat(filepath.Join(working, string(over), "temp"))
		return os.IsNotExist(errLeft) && os.IsNotExist(errTemp)
	}, time.Minute, 10*time.Millisecond)
	assert.DirExists(t, put)
	assert.NoDirExists(t, filepath.Join(put, "temp"))
	assert.DirExists(t, filepath.Join(working, string(over), "outputs"))
	assert.DirExists(t, filepath.Join(working, string(open), "temp"))
	assert.DirExists(t, filepath.Join(working, "TASK_01JD0000000000000000000000", "temp"), "nobody knows it")
	assert.DirExists(t, filepath.Join(working, "TASK_other", "temp"))
}
