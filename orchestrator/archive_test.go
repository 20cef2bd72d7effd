package orchestrator_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

// archiveAll archives every finished task.
func (n *node) archiveAll() int {
	n.t.Helper()
	r, err := n.Archive(context.Background(), api.ArchiveRequest{Wait: time.Minute})
	require.NoError(n.t, err)
	return r.Archived
}

func (n *node) find(text string) events.TaskID {
	n.t.Helper()
	r, err := n.Find(context.Background(), api.FindRequest{Text: text})
	require.NoError(n.t, err, text)
	return r.ID
}

// Archived tasks are listed and found before and after a restart, with all filters and page by page.
func TestListOfArchivedTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log)
		began := time.Now()
		var ids []events.TaskID
		for i := range 10 {
			<-time.After(time.Minute)
			ids = append(ids, n.submit(setPlan, func(r *api.SubmitRequest) {
				r.Name, r.Priority, r.Labels = fmt.Sprintf("nightly-%d", i), "high", map[string]string{"parity": []string{"even", "odd"}[i%2]}
			}))
		}
		<-time.After(time.Minute)
		require.Equal(t, 10, n.archiveAll())
		require.Zero(t, n.archiveAll(), "once is enough")
		for range 2 {
			checkArchived(t, n, began, ids)
			n.stop()
			n = start(t, log)
		}
		n.submit(onePlan)
		assert.Len(t, n.list(api.ListRequest{}), 11)
		require.Zero(t, n.archiveAll(), "what was archived and looked at is not archived again")
	})
}

func checkArchived(t *testing.T, n *node, began time.Time, ids []events.TaskID) {
	t.Helper()
	all := n.list(api.ListRequest{})
	require.Len(t, all, len(ids))
	for i, s := range all {
		assert.Equal(t, ids[len(ids)-1-i], s.ID, "the newest first")
		assert.True(t, s.Archived)
		assert.Equal(t, "high", s.Priority)
		assert.Equal(t, statemachine.Done, s.State)
		assert.Equal(t, ids[len(ids)-1-i], n.find(string(s.ID)[:20]))
	}
	assert.Equal(t, ids[9], n.find("@last"))
	assert.Len(t, n.list(api.ListRequest{Name: "nightly-[0-3]"}), 4)
	assert.Len(t, n.list(api.ListRequest{Labels: map[string]string{"parity": "odd"}}), 5)
	assert.Len(t, n.list(api.ListRequest{Since: began.Add(150 * time.Second), Until: began.Add(330 * time.Second)}), 3)
	assert.Len(t, n.list(api.ListRequest{States: []statemachine.State{statemachine.Done}}), 10)
	assert.Empty(t, n.list(api.ListRequest{States: []statemachine.State{statemachine.Failed}}))
	var paged []events.TaskID
	for cursor := ""; ; {
		r, err := n.List(context.Background(), api.ListRequest{Limit: 3, Cursor: cursor})
		require.NoError(t, err)
		for _, s := range r.Tasks {
			paged = append(paged, s.ID)
		}
		if cursor = r.Next; cursor == "" {
			break
		}
	}
	assert.Len(t, paged, 10)
	assert.True(t, n.get(ids[3]).Archived)
	assert.Len(t, n.list(api.ListRequest{}), 10, "a task that was looked at is listed once")
	n.checkReplay(ids[3])
}

// An archived task is found as the parent of its children, and @last is never a child.
func TestArchivedFamily(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log)
		n.serve(echoArgs)
		parent := n.submit("orch: v1\nsteps:\n  - id: s\n    run:\n      orch: v1\n      steps: [{id: w, tool: READ}]\n")
		n.result(parent)
		<-time.After(time.Minute)
		require.Equal(t, 2, n.archiveAll())
		n.stop()
		n = start(t, log)
		children := n.list(api.ListRequest{Parent: parent})
		require.Len(t, children, 1)
		assert.Equal(t, parent, children[0].Parent)
		assert.True(t, children[0].Archived)
		assert.Equal(t, parent, n.find("@last"))
	})
}

// A live task is not listed as archived. A task that is archived while it is in memory is listed as archived at once.
func TestArchivedIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Limits.KeepListed = 1 })
		forgotten, id := n.submit(setPlan), n.submit(setPlan)
		<-time.After(time.Minute)
		assert.False(t, n.get(id).Archived)
		assert.False(t, n.get(forgotten).Archived)
		n.archiveAll()
		assert.True(t, n.get(id).Archived)
		assert.True(t, n.get(forgotten).Archived)
		_, err := n.Find(context.Background(), api.FindRequest{Text: "TASK_7ZZZ"})
		hasCode(t, err, fault.NotFound)
	})
}

// Tasks that were evicted from memory are archived as well, with and without an index.
func TestForgottenTasksAreArchived(t *testing.T) {
	t.Parallel()
	for _, withIndex := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			log := &indexed{Log: memlog.New(memlog.Config{})}
			n := start(t, log.Log, func(c *orchestrator.Config) {
				c.Limits.KeepListed, c.Limits.KeepOpen, c.Limits.ArchiveAfter = 3, 2, time.Hour
				if withIndex {
					c.Log, c.Indexes = log, log
				}
			})
			for range 10 {
				n.submit(setPlan)
			}
			<-time.After(30 * time.Minute)
			young := n.submit(setPlan)
			<-time.After(45 * time.Minute)
			live := eventstest.HeadsOf(t, log)
			assert.Len(t, live, 1, "index %t", withIndex)
			assert.Contains(t, live, young)
		})
	}
}

// scans counts the scans of the index of a log.
type scans struct {
	*memlog.Log

	n atomic.Int64
}

func (s *scans) Heads(ctx context.Context) iter.Seq2[events.Head, error] {
	s.n.Add(1)
	return s.Log.Heads(ctx)
}

// All open tasks are in memory, so a list of open tasks does not scan the log.
func TestOpenTasksAreListedWithoutScan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &scans{Log: memlog.New(memlog.Config{})}
		n := start(t, log.Log, func(c *orchestrator.Config) { c.Log, c.Lists, c.Limits.KeepListed = log, index.NewOpen(), 1 })
		n.serve(echoArgs)
		for range 3 {
			n.result(n.submit(setPlan))
		}
		waiting := n.submit("orch: v1\nsteps:\n  - {id: w, wait: {for: 1h}}\n")
		synctest.Wait()
		before := log.n.Load()
		open := n.list(api.ListRequest{States: []statemachine.State{statemachine.InProgress, statemachine.Blocked}})
		require.Len(t, open, 1)
		assert.Equal(t, waiting, open[0].ID)
		assert.Equal(t, before, log.n.Load())
		assert.Len(t, n.list(api.ListRequest{}), 4)
		assert.Greater(t, log.n.Load(), before)
	})
}
