package orchestrator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/statemachine"
)

// A verify step also asks again, although its task cannot be blocked.
func TestExpiryDuringVerification(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(`{orch: v1, steps: [{id: a, set: {x: 1}}], verify: [{id: v, tool: READ}]}`)
		n.park("w", n.take("w"), ask())
		assert.Equal(t, statemachine.Completed, n.view(id).State)
		<-time.After(31 * time.Minute)
		synctest.Wait()
		assert.Equal(t, "orch resume "+string(id), n.cause(id).Next)
		_, err := n.Resume(n.ctx(), api.PauseRequest{ID: id, Actor: "user:ada"})
		require.NoError(t, err)
		n.park("w", n.take("w"), ask())
		_, err = n.decide(n.pending().ID, "granted", "user:ada")
		require.NoError(t, err)
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
	})
}
