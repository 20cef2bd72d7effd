package node_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/statemachine"
)

// If the clock of the machine is set while a node runs, nothing expires early, and no timer fires late.
func TestDeadlinesGoByElapsedTime(t *testing.T) {
	t.Parallel()
	var step atomic.Int64
	cfg := config(t)
	cfg.Wall = func() time.Time { return time.Now().Add(time.Duration(step.Load())) }
	n := start(t, cfg)
	asks := submit(t, n.API(), "orch: v1\nsteps:\n  - {id: ask, approve: {description: go on, timeout: 30m}}\n")
	approvals := func() []api.ApprovalView {
		r, err := n.API().Approvals(t.Context(), api.ApprovalsRequest{})
		require.NoError(t, err)
		return r.Approvals
	}
	require.Eventually(t, func() bool { return len(approvals()) == 1 }, time.Minute, 10*time.Millisecond)

	step.Store(int64(time.Hour))
	assert.Equal(t, statemachine.Done, run(t, n.API(), realWork).State, "no lease has ended")
	require.Len(t, approvals(), 1)
	_, err := n.API().Decide(t.Context(), api.DecideRequest{ID: approvals()[0].ID, As: "granted", Actor: "user:ada"})
	require.NoError(t, err, "half an hour has not passed")
	assert.Equal(t, statemachine.Done, result(t, n.API(), asks).State)

	naps := submit(t, n.API(), "orch: v1\nsteps:\n  - {id: nap, wait: {for: 3s}}\n")
	step.Store(-int64(time.Hour))
	assert.Equal(t, statemachine.Done, result(t, n.API(), naps).State, "the timer did not wait for an hour")
}
