package orchestrator_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
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

const waitingPlan = "{orch: v1, name: waits, summary: what it is about, steps: [{id: a, wait: {signal: go}}]}"

// ticking is a clock that advances by a second at every call.
func ticking() func() time.Time {
	var mu sync.Mutex
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		at = at.Add(time.Second)
		return at
	}
}

func (n *node) queue(r api.QueueRequest) api.QueueReply {
	n.t.Helper()
	reply, err := n.Queue(n.ctx(), r)
	require.NoError(n.t, err)
	return reply
}

func ids(reply api.QueueReply) []events.TaskID {
	list := []events.TaskID{}
	for _, q := range reply.Tasks {
		list = append(list, q.ID)
	}
	return list
}

// S3-111 to S3-115: what waits, by priority and then age; what somebody works on when it is asked for.
func TestQueue(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log, func(c *orchestrator.Config) { c.Clock, c.Paused = ticking(), true })
	as := func(priority string) func(*api.SubmitRequest) {
		return func(r *api.SubmitRequest) { r.Priority = priority }
	}
	busy := n.submit(waitingPlan)
	low, normal := n.submit(readPlan, as("low")), n.submit(readPlan)
	first, second := n.submit(readPlan, as("critical")), n.submit(readPlan, as("critical"))
	held := n.submit(readPlan, as("high"), func(r *api.SubmitRequest) { r.DependsOn = []events.TaskID{busy} })

	got := n.queue(api.QueueRequest{})
	assert.NotContains(t, ids(got), busy, "somebody works on it")
	inOrder := []events.TaskID{first, second, held, normal, low}
	for i, q := range got.Tasks {
		want := statemachine.ViewOf(q.State, q.Block)
		assert.Equal(t, want.Queue, q.Status, "%v", q)
		assert.False(t, want.Assigned)
		assert.Equal(t, inOrder[i], q.ID)
	}
	assert.Equal(t, inOrder, ids(got))
	assert.Equal(t, []events.TaskID{busy}, got.Tasks[2].DependsOn)
	assert.Equal(t, "blocked", got.Tasks[2].Status)
	assert.NotEmpty(t, got.Tasks[0].Reason)

	all := n.queue(api.QueueRequest{IncludeAssigned: true})
	assert.Contains(t, ids(all), busy)
	assert.Equal(t, 6, all.Stats.Total)
	assert.Equal(t, 6, all.Stats.Pending+all.Stats.Assigned+all.Stats.InProgress+all.Stats.Blocked)
	assert.Equal(t, got.Stats.Total, all.Stats.Total, "the statistics are those of the whole queue")
	assert.Positive(t, got.Stats.Wait)
	one := n.queue(api.QueueRequest{Limit: 1})
	assert.Equal(t, []events.TaskID{first}, ids(one))
	assert.Equal(t, 6, one.Stats.Total)
	i := slices.IndexFunc(all.Tasks, func(q api.QueuedTask) bool { return q.ID == busy })
	assert.Equal(t, "in_progress", all.Tasks[i].Status)
	assert.Equal(t, "what it is about", all.Tasks[i].Summary)
	assert.Equal(t, all.Tasks[i].CreatedAt, *all.Stats.Oldest)

	assert.Equal(t, []events.TaskID{busy}, ids(n.queue(api.QueueRequest{Status: "in_progress"})), "the status wins (A-86)")
	assert.Equal(t, []events.TaskID{held}, ids(n.queue(api.QueueRequest{Status: "blocked", IncludeAssigned: true})))
	assert.Equal(t, []events.TaskID{first, second}, ids(n.queue(api.QueueRequest{Priority: "critical"})))
	assert.Empty(t, ids(n.queue(api.QueueRequest{Type: "none of this type"})))
	assert.Equal(t, 5, n.queue(api.QueueRequest{Except: first}).Stats.Total)

	_, err := n.Signal(n.ctx(), api.SignalRequest{ID: busy, Name: "go"})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return n.queue(api.QueueRequest{Status: "blocked"}).Stats.Blocked == 0
	}, time.Minute, time.Millisecond, "what waited for it is pending (S3-115)")
	after := n.queue(api.QueueRequest{IncludeAssigned: true})
	assert.NotContains(t, ids(after), busy, "what is over is not listed")
	i = slices.IndexFunc(after.Tasks, func(q api.QueuedTask) bool { return q.ID == held })
	assert.Equal(t, "pending", after.Tasks[i].Status, "%v", after.Tasks[i])

	n.stop()
	again := start(t, log, func(c *orchestrator.Config) { c.Clock, c.Paused = ticking(), true })
	assert.Equal(t, ids(after), ids(again.queue(api.QueueRequest{IncludeAssigned: true})), "a restart changes nothing")
}

const readPlan = "{orch: v1, name: reads, steps: [{id: a, tool: READ}]}"

func TestQueueRefusesWrongFilters(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	for field, r := range map[string]api.QueueRequest{
		"limit": {Limit: 101}, "status": {Status: "done"}, "priority": {Priority: "medium"},
	} {
		_, err := n.Queue(n.ctx(), r)
		require.ErrorIs(t, err, &fault.Error{Code: fault.ValidationError})
		assert.Equal(t, field, fault.From(err).Field)
	}
}

// S3-110, S3-111: what agents have to be able to do, who has it, and which agents may take it.
func TestQueueOfAgents(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	one := func(kind, with string) events.TaskID {
		return n.submit("{orch: v1, name: work, labels: {type: " + kind + "}, steps: [{id: a, tool: AGENT, with: {" + with + "}}]}")
	}
	cites, adas, analysts := one("research", "requires: [search, cite]"), one("review", "agent: ada"), one("review", "type: analyst")
	of := func(r api.QueueRequest) []events.TaskID { return ids(n.queue(r)) }
	found := n.queue(api.QueueRequest{Type: "research"})
	require.Equal(t, []events.TaskID{cites}, ids(found))
	assert.Equal(t, []string{"cite", "search"}, found.Tasks[0].Requires)
	assert.Equal(t, []string{"research", "pending", ""}, []string{found.Tasks[0].Type, found.Tasks[0].Status, found.Tasks[0].AssignedTo})

	ada := api.QueueRequest{Agent: "ada", AgentType: "developer", Capabilities: []string{"cite"}}
	bob := api.QueueRequest{Agent: "bob", AgentType: "analyst", Capabilities: []string{"cite", "search", "write"}}
	assert.Equal(t, []events.TaskID{adas}, of(ada))
	assert.ElementsMatch(t, []events.TaskID{cites, analysts}, of(bob))
	require.Equal(t, []string{"a"}, n.askAs(&work.Agent{Name: "ada"}))
	assert.ElementsMatch(t, []events.TaskID{cites, analysts}, of(api.QueueRequest{}), "somebody has the other one")
	assert.Empty(t, of(ada))
	ada.IncludeAssigned, bob.IncludeAssigned = true, true
	mine := n.queue(ada)
	require.Equal(t, []events.TaskID{adas}, ids(mine))
	assert.Equal(t, "ada", mine.Tasks[0].AssignedTo)
	assert.ElementsMatch(t, []events.TaskID{cites, analysts}, of(bob), "what another agent has is not his")
}

// S3-113: the head of the queue is the same as that of a full sort, with thousands of tasks.
func TestQueueOfManyTasks(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Paused = true })
	fillQueue(t, n, 600)
	whole := n.queue(api.QueueRequest{Limit: 100, IncludeAssigned: true})
	require.Len(t, whole.Tasks, 100)
	assert.Equal(t, 600, whole.Stats.Total)
	for i, q := range whole.Tasks {
		assert.Equal(t, "critical", q.Priority)
		if i > 0 {
			assert.False(t, q.CreatedAt.Before(whole.Tasks[i-1].CreatedAt))
		}
	}
}

func fillQueue(t tb, n *node, count int) {
	priorities := []string{"low", "normal", "high", "critical"}
	batch := api.SubmitBatchRequest{}
	for i := range count {
		batch.Tasks = append(batch.Tasks, api.SubmitRequest{
			Plan: []byte(fmt.Sprintf(`{"orch":"v1","name":"t%d","steps":[{"id":"a","tool":"READ"}]}`, i)), Priority: priorities[i%4], Actor: "user:test",
		})
	}
	reply, err := n.SubmitBatch(n.ctx(), batch)
	require.NoError(t, err)
	for _, item := range reply.Tasks {
		require.Nil(t, item.Error)
	}
}

// The figure of S3-113 with 5,000 tasks that wait.
func BenchmarkQueue(b *testing.B) {
	n := start(b, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Paused = true })
	fillQueue(b, n, 5000)
	for b.Loop() {
		reply, err := n.Queue(n.ctx(), api.QueueRequest{Limit: 100, IncludeAssigned: true})
		require.NoError(b, err)
		require.Len(b, reply.Tasks, 100)
	}
}
