package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// slowTool is a tool whose calls must not be repeated. A call signals that it runs, and ends when it is released.
type slowTool struct{ runs, let chan struct{} }

func (s slowTool) tool() tools.Tool {
	spec := tools.Spec{Name: "TEST_SLOW", Purpose: "test", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.NoApproval, NoWorkspace: true}
	return tools.Define(spec, func(ctx context.Context, _ *tools.Env, _ struct{}) (struct{}, error) {
		s.runs <- struct{}{}
		select {
		case <-s.let:
			return struct{}{}, nil
		case <-ctx.Done():
			return struct{}{}, ctx.Err()
		}
	})
}

const slowPlan = "orch: v1\nsteps:\n  - {id: slow, tool: TEST_SLOW}\n  - {id: next, needs: [slow], tool: LOG_WRITE, with: {level: INFO, message: after}}\n"

// The node of a command hands over to a permanent node while a call runs that must not be repeated. The call continues, its
// outcome counts at the other node, and that node continues the task.
func TestGuestHandsOver(t *testing.T) {
	t.Parallel()
	slow := slowTool{make(chan struct{}, 2), make(chan struct{})}
	cfg := config(t)
	cfg.Extra = []tools.Tool{slow.tool()}
	guest := cfg
	guest.Guest = "orch submit"
	told := make(chan struct{})
	guest.HandedOver = func() { close(told) }
	g := start(t, guest)
	id := submit(t, g.API(), slowPlan)
	<-slow.runs

	var waited bus.Holder
	n, err := node.StartInTurn(t.Context(), cfg, func(h bus.Holder) { waited = h })
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Stop(context.Background())) })
	assert.Equal(t, "orch submit", waited.Guest)
	<-told
	assert.True(t, g.HandedOver())
	_, err = g.API().Get(t.Context(), api.GetRequest{ID: id})
	require.True(t, fault.Has(err, fault.Unavailable), "%v", err)
	view, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, statemachine.InProgress, view.State)

	close(slow.let)
	assert.Equal(t, statemachine.Done, result(t, n.API(), id).State)
	assert.Empty(t, slow.runs, "the call was made twice")
}

// A node that waits for the directory gets it before any other command does. A second permanent node is refused.
func TestTurnIsRespected(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	g := start(t, cfg) // a permanent node, which does not hand over
	_, err := node.StartInTurn(t.Context(), cfg, func(bus.Holder) { t.Error("there is nothing to wait for") })
	require.True(t, fault.Has(err, fault.Conflict), "%v", err)
	require.NoError(t, g.Stop(t.Context()))

	turn, err := bus.ClaimTurn(t.Context(), cfg.DataDir)
	require.NoError(t, err)
	_, err = bus.ClaimTurn(t.Context(), cfg.DataDir)
	require.True(t, fault.Has(err, fault.Conflict), "%v", err)
	assert.True(t, bus.Wanted(cfg.DataDir))
	cfg.Guest = "orch list"
	_, err = node.Start(t.Context(), cfg)
	require.True(t, fault.Has(err, fault.Conflict), "%v", err)
	require.NoError(t, turn.Release())
	assert.False(t, bus.Wanted(cfg.DataDir))
	start(t, cfg)
}

// A node that waits for its turn stops waiting when its context ends.
func TestWaitForATurnEnds(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	dir := cfg.DataDir
	s, err := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: dir, Guest: "orch stuck"}) // it never checks for waiting nodes
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close(context.Background())) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = node.StartInTurn(ctx, cfg, func(bus.Holder) { cancel() })
	require.True(t, fault.Has(err, fault.Cancelled), "%v", err)
}
