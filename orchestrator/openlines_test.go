package orchestrator_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

// When the index of lists is complete, there are no summaries beside it, and the log's index has open tasks alone. The next node lists
// all tasks even before it has read the file of the index.
func TestNoLinesBesideTheIndex(t *testing.T) {
	t.Parallel()
	log, path := &indexed{Log: memlog.New(memlog.Config{})}, filepath.Join(t.TempDir(), "lists.idx")
	n, x := listed(t, log, path)
	open, waits := n.submit(onePlan), n.submit(napPlan)
	for range 8 {
		n.submit(setPlan)
	}
	require.Eventually(t, func() bool { return n.Lines() == 0 }, time.Minute, time.Millisecond)
	n.submit(setPlan)
	assert.Zero(t, n.Lines())
	before, err := n.List(t.Context(), api.ListRequest{})
	require.NoError(t, err)
	n.stop()
	x.Close()
	var heads []events.TaskID
	for _, h := range log.index.Heads {
		heads = append(heads, h.Task)
	}
	assert.ElementsMatch(t, []events.TaskID{open, waits}, heads)
	assert.Len(t, log.index.Asleep, 1)

	late := &lateLists{Lists: index.New("", ""), read: make(chan struct{})}
	n = start(t, log.Log, func(c *orchestrator.Config) { c.Log, c.Indexes, c.Lists = log, log, late })
	after, err := n.List(t.Context(), api.ListRequest{})
	require.NoError(t, err)
	assert.Equal(t, before, after)
	n.submit(setPlan)
	assert.Equal(t, 1, n.Lines(), "of the one that has ended since")
	close(late.read)
	require.Eventually(t, func() bool { return late.Complete() && n.Lines() == 0 }, time.Minute, time.Millisecond)
	s, err := n.Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, []int{2, 10}, []int{s.Open, s.Finished})
}

// Lists, the queue and the counts show no commit that the log has not acknowledged.
func TestListsShowOnlyWhatIsInTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &indexed{Log: memlog.New(memlog.Config{})}
		release := make(chan struct{})
		n := start(t, log.Log, func(c *orchestrator.Config) { c.Log = log })
		id := n.submit(napPlan)
		synctest.Wait()
		shown := func() (any, any, int) {
			list, err := n.List(context.Background(), api.ListRequest{})
			require.NoError(t, err)
			queue, err := n.Queue(context.Background(), api.QueueRequest{IncludeAssigned: true})
			require.NoError(t, err)
			s, err := n.Status(context.Background(), api.StatusRequest{})
			require.NoError(t, err)
			list.Tasks[0].Reason = "" // nobody tells what a task waits for that is being changed
			for i := range queue.Tasks {
				queue.Tasks[i].Reason = ""
			}
			return list.Tasks, queue.Tasks, s.Open
		}
		lines, queue, open := shown()
		require.Equal(t, 1, open)
		<-time.After(time.Second)
		log.hold = func(events.Record) <-chan struct{} { return release }
		ended := make(chan error, 1)
		go func() { ended <- n.cancel(id) }()
		synctest.Wait()
		lines2, queue2, open2 := shown()
		assert.Equal(t, lines, lines2)
		assert.Equal(t, queue, queue2)
		assert.Equal(t, 1, open2)
		close(release)
		require.NoError(t, <-ended)
		synctest.Wait()
		list := n.list(api.ListRequest{})
		assert.Equal(t, statemachine.Cancelled, list[0].State)
		assert.Equal(t, time.Second, list[0].UpdatedAt.Sub(list[0].CreatedAt))
		_, queue3, open3 := shown()
		assert.Empty(t, queue3)
		assert.Zero(t, open3)
	})
}

// A list tells the time of the newest commit of an open task, although the index of lists learns only what changes its line.
func TestListsKnowTheNewestCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit("orch: v1\nsteps:\n  - {id: go, wait: {signal: go}}\n  - {id: on, wait: {signal: on}}\n")
		<-time.After(time.Second)
		_, err := n.Signal(context.Background(), api.SignalRequest{ID: id, Name: "go", Actor: "user:test"})
		require.NoError(t, err)
		line := n.list(api.ListRequest{})[0]
		assert.Equal(t, time.Second, line.UpdatedAt.Sub(line.CreatedAt))
	})
}

// Before the index of lists is complete, lists equal those after.
func TestListsEqualBeforeTheIndexIsComplete(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 3))
			log := &indexed{Log: memlog.New(memlog.Config{})}
			var ids []events.TaskID
			for range 3 {
				late := &lateLists{Lists: index.New("", ""), read: make(chan struct{})}
				n := start(t, log.Log, func(c *orchestrator.Config) {
					c.Log, c.Indexes, c.Lists, c.Limits.KeepListed, c.Limits.KeepOpen = log, log, late, 5, 5
				})
				for range 40 {
					ids = act(t, n, r, ids)
				}
				settle(t, n, ids)
				requests, before := make([]api.ListRequest, 40), make([]string, 40)
				for i := range requests {
					requests[i] = request(r, ids)
					before[i] = pageOf(t, n, requests[i])
				}
				assert.False(t, late.Complete())
				close(late.read)
				require.Eventually(t, late.Complete, time.Minute, time.Millisecond)
				for i := range requests {
					assert.Equal(t, before[i], pageOf(t, n, requests[i]), "%+v", requests[i])
				}
				n.stop()
			}
		})
	}
}

func pageOf(t *testing.T, n *node, r api.ListRequest) string {
	t.Helper()
	page, err := n.List(t.Context(), r)
	require.NoError(t, err)
	return asJSON(t, page)
}
