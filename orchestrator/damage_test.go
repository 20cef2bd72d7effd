package orchestrator_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
)

// A task that catches up with its dependencies when the log takes nothing any more is left as it is.
func TestCatchingUpOnADamagedLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Value
		log := &damaged{Log: memlog.New(memlog.Config{Fail: func(r *events.Record) error {
			if id, ok := refused.Load().(events.TaskID); ok && id == r.Task {
				return gone()
			}
			return nil
		}})}
		n := start(t, log.Log, func(c *orchestrator.Config) { c.Log = log })
		harmed := n.submit(onePlan)
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		first := n.submit(onePlan)
		second := n.submit(onePlan, after(first))
		refused.Store(second)
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		synctest.Wait()
		log.task.Store(harmed)
		_, err := n.Replay(t.Context(), orchestrator.ReplayRequest{ID: harmed})
		hasCode(t, err, fault.DataLoss)
		<-time.After(5 * time.Second)
		require.Equal(t, []events.TaskID{first}, n.get(second).DependsOn)
	})
}
