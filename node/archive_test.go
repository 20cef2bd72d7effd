package node_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/node"
)

// TestArchiveManyTasks archives finished tasks while others are submitted and read, stops the node in between, and measures:
//
//	ORCH_ARCHIVE=100000 go test ./node -run TestArchiveManyTasks -v -timeout 2h
func TestArchiveManyTasks(t *testing.T) { //nolint:paralleltest // it measures time
	tasks := 300
	if s := os.Getenv("ORCH_ARCHIVE"); s != "" {
		var err error
		tasks, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	cfg := config(t)
	cfg.Storage.Durability = "fsync"
	const plan = "orch: v1\nsteps:\n  - {id: s, set: {a: 1}}\n"
	n, err := node.Start(t.Context(), cfg)
	require.NoError(t, err)
	submitMany(t, n, plan, tasks)
	require.Eventually(t, func() bool {
		s, err := n.API().Status(t.Context(), api.StatusRequest{})
		return err == nil && s.Open == 0
	}, time.Minute, 10*time.Millisecond)
	quiet := submitTimes(t, n, plan, 100)
	began := time.Now()
	r, err := n.API().Archive(t.Context(), api.ArchiveRequest{})
	require.NoError(t, err)
	assert.Less(t, time.Since(began), 5*time.Second)
	busy := submitTimes(t, n, plan, 100)
	t.Logf("submit, median of 100: %s alone, %s beside the run", quiet, busy)
	require.NoError(t, n.Stop(context.Background()))

	n = start(t, cfg)
	look := api.ArchiveRequest{StatusOnly: true, Wait: 30 * time.Second}
	began = time.Now()
	for r.Running = true; r.Running; {
		asked := time.Now()
		r, err = n.API().Archive(t.Context(), look)
		require.NoError(t, err)
		assert.Less(t, time.Since(asked), 35*time.Second)
		t.Logf("%d archived after %s", r.Archived, time.Since(began).Round(time.Millisecond))
	}
	assert.Zero(t, r.Skipped)
	status, err := n.Store().Status(t.Context())
	require.NoError(t, err)
	assert.Positive(t, status.ArchiveBytes)
	report, err := n.Store().Verify(t.Context(), nil)
	require.NoError(t, err)
	assert.Zero(t, report.Found)
	assert.EqualValues(t, tasks+200, report.Tasks)
	assert.LessOrEqual(t, report.Live, uint64(200), "only what came during the run is left")
}

// submitTimes returns the median time of a submission.
func submitTimes(t *testing.T, n *node.Node, plan string, count int) time.Duration {
	t.Helper()
	var took []time.Duration
	for range count {
		began := time.Now()
		submit(t, n.API(), plan)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[count/2]
}
