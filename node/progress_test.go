package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/tools"
)

type nothing struct{}

// A watcher sees each progress of a call as it comes.
func TestWatchSeesEachProgress(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	count := tools.Define(tools.Spec{Name: "COUNT", Purpose: "test", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval, NoWorkspace: true},
		func(ctx context.Context, env *tools.Env, _ nothing) (nothing, error) {
			for i := range 5 {
				env.Progress(float64(i+1), 5, "")
				select {
				case <-seen:
				case <-ctx.Done():
				}
			}
			return nothing{}, ctx.Err()
		})
	cfg := config(t)
	cfg.Extra = []tools.Tool{count}
	n := start(t, cfg)
	id := submit(t, n.API(), "{orch: v1, steps: [{id: a, tool: COUNT}]}")
	r := api.WatchRequest{ID: id, Wait: time.Minute}
	for next := 1.0; next <= 5; {
		reply, err := n.API().Watch(t.Context(), r)
		require.NoError(t, err)
		require.False(t, reply.Ended)
		if len(reply.Commits) > 0 {
			r.After = reply.Commits[len(reply.Commits)-1].Rev
		}
		if r.SeenVersion = reply.Version; reply.Progress["a"].Done == next {
			next++
			seen <- struct{}{}
		}
	}
	require.Equal(t, "DONE", string(result(t, n.API(), id).State))
}
