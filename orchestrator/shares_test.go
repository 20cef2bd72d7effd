package orchestrator_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/work"
)

// submitAs submits a task of one read for somebody.
func (n *node) submitAs(who, priority string) events.TaskID {
	n.t.Helper()
	plan := `{"orch":"v1","priority":"` + priority + `","steps":[{"id":"a","tool":"READ"}]}`
	reply, err := n.Submit(context.Background(), api.SubmitRequest{Plan: json.RawMessage(plan), Actor: who})
	require.NoError(n.t, err)
	return reply.ID
}

// slots polls as a worker with five slots.
func (n *node) slots(free int, wait time.Duration) []events.TaskID {
	n.t.Helper()
	batch, err := n.Poll(context.Background(), work.Poll{Worker: "w", Free: free, Slots: 5, Wait: wait})
	require.NoError(n.t, err)
	got := []events.TaskID{}
	for _, call := range batch.Calls {
		got = append(got, call.Task)
	}
	return got
}

// An agent whose calls hang leaves two slots: for operators, and for critical calls of others.
func TestLastSlotsAreKeptFromAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		var hog []events.TaskID
		for range 5 {
			hog = append(hog, n.submitAs("agent:hog", "normal"))
		}
		hog = append(hog, n.submitAs("agent:hog", "critical"))
		assert.Equal(t, []events.TaskID{hog[5], hog[0], hog[1]}, n.slots(5, 0))
		reply, err := n.Explain(context.Background(), api.GetRequest{ID: hog[2]})
		require.NoError(t, err)
		assert.Contains(t, reply.Causes[0].Sentence, "the last free slots of worker w are kept for operators and critical calls")
		assert.Empty(t, n.slots(1, 0))
		more := n.submitAs("agent:hog", "critical")
		assert.Empty(t, n.slots(1, 0), "a critical call beside others of its agent is not urgent")

		got := make(chan []events.TaskID)
		go func() { got <- n.slots(1, time.Minute) }()
		synctest.Wait()
		require.NoError(t, n.Report(context.Background(), work.Outcome{
			Ref: work.Ref{Task: hog[0], Step: "a", Attempt: 1}, Worker: "w", StartedAt: time.Now(), Output: json.RawMessage(`{"n":1}`),
		}))
		assert.Equal(t, []events.TaskID{more}, <-got, "what was kept back goes on when a slot is free")
		operator := n.submitAs("user:ada", "low")
		assert.Equal(t, []events.TaskID{operator}, n.slots(1, 0))
	})
}

// A critical call of an identity without other running calls may take the slot before the last one. Only operators may take the
// last one.
func TestLastSlotIsForOperators(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	for range 5 {
		n.submitAs("agent:hog", "normal")
	}
	assert.Len(t, n.slots(5, 0), 3)
	n.submitAs("agent:other", "normal")
	critical := n.submitAs("agent:other", "critical")
	assert.Equal(t, []events.TaskID{critical}, n.slots(1, 0))
	for _, agent := range []string{"agent:third", "agent:fourth"} {
		n.submitAs(agent, "critical")
	}
	assert.Empty(t, n.slots(1, 0), "however many agents there are")
	operator := n.submitAs("user:ada", "low")
	assert.Equal(t, []events.TaskID{operator}, n.slots(1, 0))
}

// Calls that a worker holds since before a restart count even before the worker is heard of.
func TestLastSlotsAreKeptAfterARestart(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	for range 5 {
		n.submitAs("agent:hog", "normal")
	}
	for range 3 {
		call := n.take("w")
		require.NoError(t, n.Start(context.Background(), work.Started{Ref: call.Ref, Worker: "w"}))
	}
	n.stop()

	n = start(t, log)
	n.submitAs("agent:other", "normal")
	assert.Empty(t, n.slots(2, 0))
	operator := n.submitAs("user:ada", "low")
	assert.Equal(t, []events.TaskID{operator}, n.slots(2, 0))
}

// A person or program that sees only its own tasks is no operator, nor are the children of its tasks.
func TestLastSlotsAreKeptFromSubmitters(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.submit("orch: v1\nsteps: [{id: s, run: {orch: v1, steps: [{id: a, tool: READ}]}}]\n", by("user:ci"),
		func(r *api.SubmitRequest) { r.KeysOf = "user:ci" })
	child := n.take("other")
	assert.True(t, n.submitted(child.Task).Limited)
	for range 5 {
		n.submit(onePlan, by("user:ci"), func(r *api.SubmitRequest) { r.KeysOf = "user:ci" })
	}
	assert.Len(t, n.slots(5, 0), 3)
	assert.Empty(t, n.slots(2, 0))
	operator := n.submitAs("user:ada", "low")
	assert.Equal(t, []events.TaskID{operator}, n.slots(2, 0))
}

// A worker with few slots reserves one of them; a worker with a single slot reserves none.
func TestFewSlots(t *testing.T) {
	t.Parallel()
	for slots, agents := range map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 3} {
		n := start(t, memlog.New(memlog.Config{}))
		for range slots {
			n.submitAs("agent:hog", "normal")
		}
		batch, err := n.Poll(context.Background(), work.Poll{Worker: "w", Free: slots, Slots: slots})
		require.NoError(t, err)
		assert.Len(t, batch.Calls, agents, "of %d slots", slots)
	}
}

// Of calls with the same priority, the one whose identity has fewer running calls is next, however many calls another identity
// has queued before.
func TestIdentitiesTakeTurns(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	var first, second []events.TaskID
	for range 4 {
		first = append(first, n.submitAs("user:first", "normal"))
	}
	for range 2 {
		second = append(second, n.submitAs("user:second", "normal"))
	}
	urgent := n.submitAs("user:first", "high")
	var got []events.TaskID
	for range 7 {
		got = append(got, n.slots(1, 0)...)
	}
	assert.Equal(t, []events.TaskID{urgent, second[0], first[0], second[1], first[1], first[2], first[3]}, got)
}

// A critical call that was refused a last slot, because another call of its identity was running elsewhere, is dispatched when
// that one ends.
func TestCriticalCallsGoOnWhenTheirAgentHasNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		elsewhere, err := n.Submit(context.Background(), api.SubmitRequest{
			Plan: json.RawMessage(`{"orch":"v1","steps":[{"id":"a","tool":"READ","queue":"far"}]}`), Actor: "agent:other",
		})
		require.NoError(t, err)
		batch, err := n.Poll(context.Background(), work.Poll{Worker: "far", Queues: []string{"far"}, Free: 1})
		require.NoError(t, err)
		require.Len(t, batch.Calls, 1)
		for range 3 {
			n.submitAs("agent:hog", "normal")
		}
		require.Len(t, n.slots(5, 0), 3)
		critical := n.submitAs("agent:other", "critical")

		began, got := time.Now(), make(chan []events.TaskID)
		go func() { got <- n.slots(1, time.Minute) }()
		synctest.Wait()
		require.NoError(t, n.Report(context.Background(), work.Outcome{
			Ref: work.Ref{Task: elsewhere.ID, Step: "a", Attempt: 1}, Worker: "far", StartedAt: time.Now(), Output: json.RawMessage(`{"n":1}`),
		}))
		assert.Equal(t, []events.TaskID{critical}, <-got)
		assert.Zero(t, time.Since(began))
	})
}

// registeredBy makes agents count against the share of the identity that registered them.
func registeredBy(share string, agents ...string) option {
	return func(c *orchestrator.Config) {
		c.Hooks.ShareOf = func(who string) string {
			if slices.Contains(agents, who) {
				return share
			}
			return ""
		}
	}
}

// Agents that another agent has registered share one turn and one urgent call with it, also after a restart after which they
// are no longer registered.
func TestRegisteredAgentsShareOneTurn(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log, registeredBy("agent:hog", "agent:a", "agent:b", "agent:c"))
	var hog []events.TaskID
	for _, who := range []string{"agent:hog", "agent:a", "agent:b", "agent:c"} {
		hog = append(hog, n.submitAs(who, "normal"))
	}
	other := n.submitAs("agent:other", "normal")
	call := n.take("w")
	assert.Equal(t, hog[0], call.Task)
	require.NoError(t, n.Start(context.Background(), work.Started{Ref: call.Ref, Worker: "w"}))
	n.stop()

	n = start(t, log)
	assert.Equal(t, []events.TaskID{other}, n.slots(1, 0), "the others have had their turn")
	assert.Equal(t, []events.TaskID{hog[1]}, n.slots(1, 0))
}

// However many agents an identity registers, the slot for urgent calls stays free for those of others.
func TestRegisteredAgentsShareOneUrgentCall(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), registeredBy("agent:hog", "agent:a", "agent:b", "agent:c"))
	for _, who := range []string{"agent:hog", "agent:a", "agent:b", "agent:c"} {
		n.submitAs(who, "critical")
	}
	assert.Len(t, n.slots(5, 0), 3)
	urgent := n.submitAs("agent:other", "critical")
	assert.Equal(t, []events.TaskID{urgent}, n.slots(1, 0))
	operator := n.submitAs("user:ada", "low")
	assert.Equal(t, []events.TaskID{operator}, n.slots(1, 0))
}

// The child tasks of an agent count against the share of the agent.
func TestChildrenOfRegisteredAgentsShareOneTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), registeredBy("agent:hog", "agent:a"))
		first := n.submitAs("agent:hog", "normal")
		n.submit("orch: v1\nsteps:\n  - id: s\n    run:\n      orch: v1\n      steps:\n        - {id: a, tool: READ}\n", by("agent:a"))
		synctest.Wait()
		other := n.submitAs("agent:other", "normal")
		assert.Equal(t, []events.TaskID{first}, n.slots(1, 0))
		assert.Equal(t, []events.TaskID{other}, n.slots(1, 0), "the child is older, and its turn comes later")
		assert.Len(t, n.slots(1, 0), 1)
		n.stop()
	})
}
