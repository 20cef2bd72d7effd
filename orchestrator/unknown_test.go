package orchestrator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/orchestrator"
)

// forgetfulLists is an index that says of each task that it lacks it.
type forgetfulLists struct{ orchestrator.Lists }

func (forgetfulLists) Lacks(events.TaskID) bool { return true }

func withID(id events.TaskID) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.ID = id }
}

// A task with a chosen id or a key that the index does not know is created without reading the log first.
func TestNewTasksAreNotLookedUp(t *testing.T) {
	t.Parallel()
	log, lists := newReadCounter(), index.New("", "")
	n := startReadCounter(t, log, func(c *orchestrator.Config) { c.Lists = lists })
	require.Eventually(t, lists.Complete, time.Minute, time.Millisecond)
	before := log.reads.Load()
	id := events.NewTaskID(time.Now())
	for range 2 {
		reply, err := n.trySubmit(signalPlan, withID(id))
		require.NoError(t, err)
		assert.Equal(t, id, reply.ID)
	}
	n.submit(signalPlan, scoped("k", ""))
	assert.Equal(t, before, log.reads.Load())
}

// What the log has or had is found although the index does not know it, whatever the task does: nothing runs twice.
func TestTasksThatTheIndexForgot(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	open, done, archived := n.submit(signalPlan), n.submit(setPlan), n.submit(setPlan)
	n.submit(setPlan, scoped("gone", "until_end"))
	n.submit(setPlan, scoped("kept", ""))
	gone, kept := events.KeyedTaskID("", "gone"), events.KeyedTaskID("", "kept")
	for _, id := range []events.TaskID{done, archived, gone, kept} {
		n.result(id)
	}
	for _, id := range []events.TaskID{archived, gone, kept} {
		require.NoError(t, log.Archive(n.ctx(), id))
	}
	require.NoError(t, log.Remove(n.ctx(), []events.TaskID{gone, kept}))
	n.stop()
	n = start(t, log, func(c *orchestrator.Config) { c.Lists = forgetfulLists{index.New("", "")} })
	again := func(plan string, change func(*api.SubmitRequest)) (api.SubmitReply, error) {
		return n.trySubmit(plan, change)
	}
	for id, plan := range map[events.TaskID]string{open: signalPlan, done: setPlan, archived: setPlan} {
		reply, err := again(plan, withID(id))
		require.NoError(t, err)
		assert.True(t, reply.Existing)
		assert.Equal(t, id, reply.ID)
		_, err = again(failingPlan, withID(id))
		hasCode(t, err, fault.Conflict)
	}
	_, err := again(setPlan, scoped("kept", ""))
	hasCode(t, err, fault.Gone)
	reply, err := again(setPlan, scoped("gone", "until_end"))
	require.NoError(t, err)
	assert.False(t, reply.Existing)
	assert.Equal(t, events.KeyedTaskIDAt("", "gone", 1), reply.ID)
	n.result(reply.ID)
	n.signal(open)
	n.result(open)
	n.checkIdle()
}
