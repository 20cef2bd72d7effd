package orchestrator_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
)

// A task that checks its dependencies while the log refuses appends is left unchanged.
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
		_, err := n.Replay(t.Context(), api.ReplayRequest{ID: harmed})
		hasCode(t, err, fault.DataLoss)
		<-time.After(5 * time.Second)
		require.Equal(t, []events.TaskID{first}, n.get(second).DependsOn)
	})
}

// lacking is a log that cannot read a task.
type lacking struct {
	*memlog.Log
	task events.TaskID
}

// Read implements events.Log.
func (l *lacking) Read(ctx context.Context, id events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	if id != l.task {
		return l.Log.Read(ctx, id, from)
	}
	return func(yield func(events.Stored, error) bool) {
		yield(events.Stored{}, fault.New(fault.DataLoss, "a commit is missing"))
	}
}

// An open task with an unreadable history is listed and marked as such.
func TestUnreadableTasksAreListed(t *testing.T) {
	t.Parallel()
	log := &lacking{Log: memlog.New(memlog.Config{})}
	n := start(t, log.Log)
	harmed, whole := n.submit(onePlan), n.submit(onePlan)
	n.stop()
	log.task = harmed
	n = start(t, log.Log, func(c *orchestrator.Config) { c.Log = log })
	lines := map[events.TaskID]api.Summary{}
	require.Eventually(t, func() bool {
		clear(lines)
		for _, line := range n.list(api.ListRequest{}) {
			lines[line.ID] = line
		}
		return len(lines) == 2 && lines[harmed].Unreadable != ""
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, fault.DataLoss, lines[harmed].Unreadable)
	require.NotEmpty(t, lines[harmed].Reason)
	require.Empty(t, lines[whole].Unreadable)
}
