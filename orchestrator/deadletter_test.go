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
			elsewhere: "Step a is ready, but no worker of queue default works in /elsewhere, the root of the task.",
		}, n.stuckReasons())
		assert.Empty(t, n.deadList())
		assert.Equal(t, 2, n.CountStuck())

		poll(work.Poll{Worker: "far", Queues: []string{"far"}, Free: 2})
		assert.Contains(t, n.stuckReasons(), elsewhere)
		assert.NotContains(t, n.stuckReasons(), far)
		_, err := n.List(n.ctx(), api.ListRequest{Stuck: true, Dead: true})
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
	})
}

// The advice starts a worker that takes the call, whatever the workers that are there lack.
func TestAdviceForStuckTasks(t *testing.T) {
	t.Parallel()
	const queued, plain = "{orch: v1, steps: [{id: a, tool: READ, queue: gpu}]}", readPlan
	elsewhere := work.Poll{Worker: "elsewhere", Root: "/elsewhere", Queues: []string{"gpu", "default"}, Free: 1}
	otherTool := work.Poll{Worker: "other", Root: "/it's here", Queues: []string{"gpu"}, Tools: []string{"WRITE"}, Free: 1}
	for name, c := range map[string]struct {
		plan, root     string
		workers        []work.Poll
		sentence, next string
	}{
		"no queue":                 {queued, "", nil, "no worker serves queue gpu.", "orch worker --queue gpu"},
		"no queue, a root":         {queued, "/here", nil, "no worker serves queue gpu.", "orch worker --queue gpu --root /here"},
		"no default queue":         {plain, "/here", nil, "no worker serves queue default.", "orch worker --queue default --root /here"},
		"queue of another root":    {queued, "/here", []work.Poll{elsewhere}, "no worker of queue gpu works in /here, the root of the task.", "orch worker --queue gpu --root /here"},
		"default of another root":  {plain, "/here", []work.Poll{elsewhere}, "no worker of queue default works in /here, the root of the task.", "orch worker --queue default --root /here"},
		"another queue, the root":  {queued, "/here", []work.Poll{{Worker: "here", Root: "/here", Free: 1}}, "no worker serves queue gpu.", "orch worker --queue gpu --root /here"},
		"no tool":                  {queued, "/it's here", []work.Poll{otherTool}, "no worker of queue gpu that works in /it's here has the tool READ.", `orch worker --queue gpu --root '/it'\''s here'`},
		"no tool, no root":         {queued, "", []work.Poll{otherTool}, "no worker of queue gpu has the tool READ.", "orch worker --queue gpu"},
		"tool in another root":     {queued, "/it's here", []work.Poll{otherTool, elsewhere}, "no worker of queue gpu that works in /it's here has the tool READ.", `orch worker --queue gpu --root '/it'\''s here'`},
		"a worker of another root": {queued, "/here", []work.Poll{elsewhere, otherTool}, "no worker of queue gpu works in /here, the root of the task.", "orch worker --queue gpu --root /here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := start(t, memlog.New(memlog.Config{}), short, func(c *orchestrator.Config) { c.Local = true })
				id := n.submit(c.plan, func(r *api.SubmitRequest) { r.Root = c.root })
				for _, p := range c.workers {
					_, err := n.Poll(n.ctx(), p)
					require.NoError(t, err)
				}
				<-time.After(11 * time.Second)
				why, err := n.Explain(n.ctx(), api.GetRequest{ID: id})
				require.NoError(t, err)
				require.Len(t, why.Causes, 1)
				assert.Equal(t, "no_worker", why.Causes[0].Kind)
				assert.Equal(t, "Step a is ready, but "+c.sentence, why.Causes[0].Sentence)
				assert.Equal(t, c.next, why.Causes[0].Next)
				assert.Equal(t, map[events.TaskID]string{id: why.Causes[0].Sentence}, n.stuckReasons())
			})
		})
	}
}

// The client of a session has got the error of its call. A plan that it has submitted is in the dead letter like that of anybody.
func TestDeadLetterLacksCallsOfSessions(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	session := events.NewTaskID(time.Now())
	_, err := n.Submit(n.ctx(), api.SubmitRequest{Plan: api.SessionPlan(time.Hour), ID: session, Session: session, Actor: "user:test"})
	require.NoError(t, err)
	failed := func(name string, within events.TaskID) events.TaskID {
		id := n.submit(readPlan, func(r *api.SubmitRequest) {
			r.Name, r.Session, r.Internal = name, within, name == api.UndoPreviewName
		})
		require.NoError(t, n.fail("w", n.take("w"), "denied"))
		require.Equal(t, statemachine.Failed, n.result(id).State)
		return id
	}
	failed("READ", session)
	failed(api.UndoPreviewName, "")
	plan, alone := failed("report", session), failed("READ", "")
	assert.ElementsMatch(t, []events.TaskID{plan, alone}, n.deadList())
}
