package orchestrator_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/test/need"
)

const day = 24 * time.Hour

func keeping(done, failed time.Duration) option {
	return func(c *orchestrator.Config) { c.Limits.Retention = orchestrator.Retention{Done: done, Failed: failed} }
}

// Archived tasks are removed when their retention has expired, depending on how they ended. A record of when they were removed
// remains, also after a restart, and their idempotency keys stay in use.
func TestOldTasksAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, keeping(10*day, 20*day))
		keyed := func(r *api.SubmitRequest) { r.IdempotencyKey = "nightly" }
		done, failed := n.submit(setPlan, keyed), n.submit(signalPlan)
		require.NoError(t, n.cancel(failed))
		open := n.submit(signalPlan)
		<-time.After(9 * day)
		require.Len(t, n.list(api.ListRequest{}), 3)
		young := n.submit(setPlan)
		<-time.After(2 * day)
		check := func() {
			_, err := n.Get(n.ctx(), api.GetRequest{ID: done})
			hasCode(t, err, fault.Gone)
			require.ErrorContains(t, err, "removed by retention")
			_, err = n.trySubmit(setPlan, keyed)
			hasCode(t, err, fault.Gone)
			var left []events.TaskID
			for _, line := range n.list(api.ListRequest{}) {
				left = append(left, line.ID)
			}
			assert.ElementsMatch(t, []events.TaskID{failed, open, young}, left)
		}
		check()
		n.stop()
		n = start(t, log, keeping(10*day, 20*day))
		check()
		<-time.After(12 * day)
		require.Len(t, n.list(api.ListRequest{}), 1)
		assert.Equal(t, open, n.list(api.ListRequest{})[0].ID, "an open task is never removed")
	})
}

// What is removed is announced before, with its result after it. If that is not possible, nothing is removed.
func TestRemovalsAreAnnounced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var announced, removed atomic.Int64
		var full atomic.Bool
		full.Store(true)
		n := start(t, memlog.New(memlog.Config{}), keeping(10*day, 20*day), func(c *orchestrator.Config) {
			c.Hooks.Removing = func(_ context.Context, due int) (func(int, error), error) {
				announced.Add(int64(due))
				if full.Load() {
					return nil, fault.New(fault.DiskFull, "the audit stream is full")
				}
				return func(n int, err error) { removed.Add(int64(n)); assert.NoError(t, err) }, nil
			}
		})
		n.submit(setPlan)
		<-time.After(12 * day)
		assert.NotZero(t, announced.Load())
		require.Len(t, n.list(api.ListRequest{}), 1, "it stays")
		full.Store(false)
		<-time.After(day)
		assert.Equal(t, int64(1), removed.Load())
		assert.Empty(t, n.list(api.ListRequest{}))
	})
}

// Without a limit nothing is removed.
func TestTasksAreKeptForEver(t *testing.T) {
	t.Parallel()
	need.Long(t)
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), keeping(0, day))
		n.submit(setPlan)
		<-time.After(100 * day)
		assert.Len(t, n.list(api.ListRequest{}), 1)
	})
}

// A family is removed as a whole, including children.
func TestFamiliesAreRemovedTogether(t *testing.T) {
	t.Parallel()
	none := func(events.TaskID) (bool, error) { return false, nil }
	all := func(events.TaskID) (bool, error) { return true, nil }
	type tasks = map[events.TaskID]events.TaskID
	for name, c := range map[string]struct {
		due, kept tasks
		exists    func(events.TaskID) (bool, error)
		want      []events.TaskID
	}{
		"alone":                      {tasks{"b": "", "a": ""}, nil, all, []events.TaskID{"a", "b"}},
		"all due":                    {tasks{"a": "", "b": "a", "c": "b"}, nil, all, []events.TaskID{"a", "b", "c"}},
		"a child is not due":         {tasks{"a": "", "b": "a", "z": ""}, tasks{"c": "a"}, all, []events.TaskID{"z"}},
		"a grandchild is not due":    {tasks{"a": "", "b": "a", "d": "a"}, tasks{"c": "b"}, all, nil},
		"the parent is not due":      {tasks{"b": "a", "c": "b"}, tasks{"a": ""}, all, nil},
		"the parent is gone already": {tasks{"b": "a", "c": "b"}, nil, none, []events.TaskID{"b", "c"}},
	} {
		got, err := orchestrator.DueFamilies(c.due, c.kept, c.exists)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
	_, err := orchestrator.DueFamilies(tasks{"b": "a"}, nil, func(events.TaskID) (bool, error) { return false, fault.New(fault.Unavailable, "") })
	hasCode(t, err, fault.Unavailable)
}

// A removal that was cut off after it had removed a task from the index and before it had removed it from the log begins again: the
// task is listed after the next start, and removed when it is due.
func TestCutRemoval(t *testing.T) {
	t.Parallel()
	log, path := &indexed{Log: memlog.New(memlog.Config{})}, filepath.Join(t.TempDir(), "lists.idx")
	n, x := listed(t, log, path)
	id := n.submit(setPlan)
	n.result(id)
	n.archiveAll()
	n.stop()
	x.Close()

	x = index.New(path, "log")
	past, live, err := log.Positions(t.Context())
	require.NoError(t, err)
	x.Load(past, live)
	_, err = log.Save(t.Context(), "TASK_00000000000000000000000000", "removal", json.RawMessage(`["`+id+`"]`))
	require.NoError(t, err)
	require.NoError(t, x.Remove([]events.TaskID{id}))
	require.NoError(t, x.Save(past, live))
	x.Close()

	n, x = listed(t, log, path)
	lines := n.list(api.ListRequest{})
	require.Len(t, lines, 1)
	assert.Equal(t, id, lines[0].ID)
	assert.True(t, lines[0].Archived)
	assert.Equal(t, 1, x.Finished())
}
