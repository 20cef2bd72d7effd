package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/node"
)

// Plans of tasks that stay open for long: one sleeps, one waits for a person.
const (
	sleepingPlan = "orch: v1\nsteps:\n  - {id: nap, wait: {for: 24h}}\n"
	approvalPlan = "orch: v1\nsteps:\n  - {id: ask, approve: {description: go on}}\n"
)

// TestRestartWithOpenTasks measures how long a node takes to start on a store of many open tasks, which it has made itself:
//
//	ORCH_RESTART=10000,5000 go test ./node -run TestRestartWithOpenTasks -v
//
// The numbers are those of timers and of approvals. ORCH_RESTART_PROFILE names a file for a CPU profile of the starts.
func TestRestartWithOpenTasks(t *testing.T) { //nolint:paralleltest // it measures time
	timers, approvals := 200, 100
	if s := os.Getenv("ORCH_RESTART"); s != "" {
		_, err := fmt.Sscanf(s, "%d,%d", &timers, &approvals)
		require.NoError(t, err)
	}
	cfg := config(t)
	cfg.Worker.Concurrency = 2
	n, err := node.Start(t.Context(), cfg)
	require.NoError(t, err)
	submitMany(t, n, sleepingPlan, timers)
	submitMany(t, n, approvalPlan, approvals)
	require.Eventually(t, func() bool {
		r, err := n.API().Approvals(t.Context(), api.ApprovalsRequest{})
		return err == nil && len(r.Approvals) == approvals
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, n.Stop(context.Background()))
	if name := os.Getenv("ORCH_RESTART_PROFILE"); name != "" {
		f, err := os.Create(name)
		require.NoError(t, err)
		require.NoError(t, pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	for range 3 {
		began := time.Now()
		n, err := node.Start(t.Context(), cfg)
		require.NoError(t, err)
		t.Logf("ready after %s", time.Since(began))
		status, err := n.API().Status(t.Context(), api.StatusRequest{})
		require.NoError(t, err)
		require.Equal(t, timers+approvals, status.Open)
		r, err := n.API().Approvals(t.Context(), api.ApprovalsRequest{})
		require.NoError(t, err)
		require.Len(t, r.Approvals, approvals)
		require.NoError(t, n.Stop(context.Background()))
	}
}

// submitMany submits a plan many times, through the API.
func submitMany(t *testing.T, n *node.Node, plan string, count int) {
	t.Helper()
	text, err := json.Marshal(plan)
	require.NoError(t, err)
	for count > 0 {
		batch := api.SubmitBatchRequest{Tasks: make([]api.SubmitRequest, min(count, 1000))}
		for i := range batch.Tasks {
			batch.Tasks[i] = api.SubmitRequest{Plan: text, Actor: "user:test"}
		}
		r, err := n.API().SubmitBatch(t.Context(), batch)
		require.NoError(t, err)
		for _, one := range r.Tasks {
			require.Nil(t, one.Error)
		}
		count -= len(batch.Tasks)
	}
}
