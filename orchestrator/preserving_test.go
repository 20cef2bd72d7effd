package orchestrator_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/archives"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/objects"
	"github.com/orch-dev/orch/orchestrator"
)

// Tasks are archived outside before they are removed. While that fails nothing is removed, and a family with a task that cannot be
// archived stays. What was removed can be restored.
func TestTasksAreArchivedBeforeTheyAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, err := objects.OpenDir(t.TempDir(), true)
		require.NoError(t, err)
		defer func() { require.NoError(t, dir.Close()) }()
		var n *node
		var down atomic.Bool
		var refused atomic.Value
		down.Store(true)
		preserve := func(c *orchestrator.Config) {
			c.Hooks.Preserve = func(ctx context.Context, ids []events.TaskID) (map[events.TaskID]error, error) {
				if down.Load() {
					return nil, fault.New(fault.Unavailable, "the server is down")
				}
				var left map[events.TaskID]error
				for _, id := range ids {
					if id == refused.Load() {
						left = map[events.TaskID]error{id: fault.New(fault.SecretDetected, "it holds a secret")}
					}
				}
				w := archives.Writer{Node: n, Store: dir, Temp: t.TempDir(), Now: time.Now}
				_, err := w.Write(ctx, ids)
				return left, err
			}
		}
		n = start(t, memlog.New(memlog.Config{}), keeping(10*day, 10*day), exporting, preserve)
		parent, alone := n.submit(parentPlan), n.submit(setPlan)
		<-time.After(2 * time.Hour)
		child := n.list(api.ListRequest{Parent: parent})[0].ID
		refused.Store(child)
		gone := func(id events.TaskID) bool {
			_, err := n.Get(n.ctx(), api.GetRequest{ID: id})
			return fault.Has(err, fault.Gone)
		}
		<-time.After(12 * day)
		assert.False(t, gone(alone), "the server was down")
		assert.True(t, n.Figures().RemovalFails)
		down.Store(false)
		<-time.After(day)
		assert.True(t, gone(alone))
		assert.False(t, n.Figures().RemovalFails)
		assert.Equal(t, 1, n.Figures().Removed)
		assert.False(t, gone(parent))
		assert.False(t, gone(child))
		refused.Store(events.TaskID(""))
		<-time.After(2 * day)
		assert.True(t, gone(parent))
		assert.True(t, gone(child))

		found, err := archives.Find(n.ctx(), dir, alone)
		require.NoError(t, err)
		file, err := os.Create(filepath.Join(t.TempDir(), "file"))
		require.NoError(t, err)
		defer file.Close()
		require.NoError(t, found.Copy(n.ctx(), dir, file))
		request := func(restore bool) api.ImportRequest {
			return api.ImportRequest{File: "a" + map[bool]string{true: "b"}[restore], Size: found.Entry.Size, Restore: restore, Actor: "user:ada", Wait: time.Minute}
		}
		_, err = api.SendImport(n.ctx(), n, io.NewSectionReader(file, 0, found.Entry.Size), request(false))
		hasCode(t, err, fault.Gone)
		_, err = api.SendImport(n.ctx(), n, io.NewSectionReader(file, 0, found.Entry.Size), request(true))
		require.NoError(t, err)
		view := n.get(alone)
		assert.Equal(t, "user:ada", view.Imported.By)
		<-time.After(9 * day)
		assert.False(t, gone(alone), "its time has begun anew")
		<-time.After(3 * day)
		assert.True(t, gone(alone))
	})
}

// A hold that is placed while tasks are archived outside, between the decision to remove them and their removal, keeps them.
func TestAHoldOvertakesARemoval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n *node
		var parent, child, alone events.TaskID
		var held atomic.Int32
		n = start(t, memlog.New(memlog.Config{}), keeping(10*day, 10*day), func(c *orchestrator.Config) {
			c.Hooks.Preserve = func(ctx context.Context, ids []events.TaskID) (map[events.TaskID]error, error) {
				assert.Contains(t, ids, child)
				_, err := n.PlaceHold(ctx, api.HoldRequest{IDs: []events.TaskID{child}, Reason: "just in time"})
				held.Add(1)
				return nil, err
			}
		})
		parent, alone = n.submit(parentPlan), n.submit(setPlan)
		<-time.After(2 * time.Hour)
		child = n.list(api.ListRequest{Parent: parent})[0].ID
		<-time.After(12 * day)
		require.Equal(t, int32(1), held.Load(), "later they are not due")
		for _, id := range []events.TaskID{parent, child} {
			_, err := n.Get(n.ctx(), api.GetRequest{ID: id})
			require.NoError(t, err)
		}
		_, err := n.Get(n.ctx(), api.GetRequest{ID: alone})
		hasCode(t, err, fault.Gone)
	})
}
