package orchestrator_test

import (
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
	"github.com/orch-dev/orch/statemachine"
)

// Finished tasks leave the memory as soon as they have too many steps together, and are read from the log on request.
func TestFinishedTasksInMemory(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		most, steps, want int
	}{
		{most: 100, steps: 1000, want: 50},
		{most: 30, steps: 1000, want: 30},
		{most: 100, steps: 40, want: 40},
		{most: 100, steps: 1, want: 16},
		{most: 5, steps: 1, want: 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
				c.Limits.KeepOpen, c.Limits.KeepOpenSteps = test.most, test.steps
			})
			var ids []events.TaskID
			for range 50 {
				ids = append(ids, n.submit(setPlan))
			}
			synctest.Wait()
			assert.Equal(t, test.want, n.Held())
			assert.Equal(t, statemachine.Done, n.get(ids[0]).State)
			n.stop()
		})
	}
}

// A calm node keeps few finished tasks in memory.
func TestShed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		first := n.submit(setPlan)
		for range 299 {
			n.submit(setPlan)
		}
		open := n.submit(onePlan)
		synctest.Wait()
		assert.Equal(t, 301, n.Held())
		n.Shed()
		assert.Equal(t, 257, n.Held())
		assert.Equal(t, statemachine.Done, n.get(first).State)
		assert.False(t, n.get(open).State.Terminal())
		n.stop()
	})
}

// A page of a history, or the check that a task exists, does not read the whole history.
func TestHistoryIsNotReadAsAWhole(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	n.serve(echoArgs)
	id := n.submit(onePlan)
	n.result(id)
	n.stop()
	lists := index.New("", "")
	n = start(t, log, func(c *orchestrator.Config) { c.Lists = lists })
	require.Eventually(t, lists.Complete, time.Minute, time.Millisecond)
	page, err := n.History(n.ctx(), api.HistoryRequest{ID: id, Limit: 1})
	require.NoError(t, err)
	require.Len(t, page.Commits, 1)
	assert.EqualValues(t, 2, page.Next)
	page, err = n.History(n.ctx(), api.HistoryRequest{ID: id, From: 2})
	require.NoError(t, err)
	assert.Len(t, page.Commits, 1)
	assert.Zero(t, page.Next)
	page, err = n.History(n.ctx(), api.HistoryRequest{ID: id, From: 3})
	require.NoError(t, err)
	assert.Empty(t, page.Commits)
	found, err := n.Find(n.ctx(), api.FindRequest{Text: string(id)})
	require.NoError(t, err)
	assert.Equal(t, id, found.ID)
	assert.Zero(t, n.Held())
	_, err = n.History(n.ctx(), api.HistoryRequest{ID: "TASK_01JD0000000000000000000000"})
	hasCode(t, err, fault.NotFound)
	_, err = n.History(n.ctx(), api.HistoryRequest{ID: "x"})
	hasCode(t, err, fault.InvalidFormat)
}

// A task that is read before the index of lists keeps its submitter in the index.
func TestLastAfterAnEarlyRead(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	id := n.submit(setPlan, func(r *api.SubmitRequest) { r.Actor, r.Via = "user:ada", "submit" })
	n.stop()
	lists := &lateLists{Lists: index.New("", ""), read: make(chan struct{})}
	n = start(t, log, func(c *orchestrator.Config) { c.Lists = lists })
	assert.Equal(t, statemachine.Done, n.get(id).State)
	close(lists.read)
	require.Eventually(t, lists.Complete, time.Minute, time.Millisecond)
	found, err := n.Find(n.ctx(), api.FindRequest{Text: "@last", Actor: "user:ada"})
	require.NoError(t, err)
	assert.Equal(t, id, found.ID)
}

// lateLists are lists whose file is read late.
type lateLists struct {
	orchestrator.Lists

	read chan struct{}
}

func (l *lateLists) Load(past, live uint64) (uint64, uint64) {
	<-l.read
	return l.Lists.Load(past, live)
}
