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
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// stuckReasons returns the reasons of the tasks that nobody can go on with.
func (n *node) stuckReasons() map[events.TaskID]string {
	n.t.Helper()
	page, err := n.List(n.ctx(), api.ListRequest{Stuck: true})
	require.NoError(n.t, err)
	reasons := map[events.TaskID]string{}
	for _, line := range page.Tasks {
		reasons[line.ID] = line.Reason
	}
	return reasons
}

// A task is stuck when its call has waited for a while although no worker serves its queue or its root, and no longer when one does.
func TestStuckTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short, func(c *orchestrator.Config) { c.Local = true })
		poll := func(p work.Poll) {
			_, err := n.Poll(n.ctx(), p)
			require.NoError(t, err)
		}
		far := n.submit("{orch: v1, name: far, steps: [{id: a, tool: READ, queue: far}, {id: b, tool: READ, queue: far}]}")
		elsewhere := n.submit(readPlan, func(r *api.SubmitRequest) { r.Root = "/elsewhere" })
		n.submit(readPlan, func(r *api.SubmitRequest) { r.Root = "/here" })
		assert.Empty(t, n.stuckReasons(), "a worker may be about to come")
		poll(work.Poll{Worker: "here", Root: "/here", Free: 1})
		<-time.After(11 * time.Second)
		assert.Equal(t, map[events.TaskID]string{
			far:       "Step a is ready, but no worker serves queue far.",
			elsewhere: "Step a is ready, but no worker works in /elsewhere, the root of the task.",
		}, n.stuckReasons())
		assert.Empty(t, n.deadList())

		poll(work.Poll{Worker: "far", Queues: []string{"far"}, Free: 2})
		assert.Contains(t, n.stuckReasons(), elsewhere)
		assert.NotContains(t, n.stuckReasons(), far)
		_, err := n.List(n.ctx(), api.ListRequest{Stuck: true, Dead: true})
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
	})
}

// The client of a session has got the error of its call. A plan that it has submitted is in the dead letter like that of anybody.
func TestDeadLetterLacksCallsOfSessions(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	session := events.NewTaskID(time.Now())
	_, err := n.Submit(n.ctx(), api.SubmitRequest{Plan: api.SessionPlan(time.Hour), ID: session, Session: session, Actor: "user:test"})
	require.NoError(t, err)
	failed := func(name string, within events.TaskID) events.TaskID {
		id := n.submit(readPlan, func(r *api.SubmitRequest) { r.Name, r.Session = name, within })
		require.NoError(t, n.fail("w", n.take("w"), "denied"))
		require.Equal(t, statemachine.Failed, n.result(id).State)
		return id
	}
	failed("READ", session)
	failed(api.UndoPreviewName, "")
	plan, alone := failed("report", session), failed("READ", "")
	assert.ElementsMatch(t, []events.TaskID{plan, alone}, n.deadList())
}
