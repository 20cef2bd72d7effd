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

const stubbornPlan = `
orch: v1
steps:
  - {id: good, tool: READ, with: {n: 1}}
  - {id: bad, needs: [good], tool: IDEM, with: {n: 1}, retry: {max_attempts: 100, initial: 10ms, max: 10ms}}
`

// deadList returns the ids of the dead letter.
func (n *node) deadList() []events.TaskID {
	n.t.Helper()
	page, err := n.List(n.ctx(), api.ListRequest{Dead: true})
	require.NoError(n.t, err)
	var ids []events.TaskID
	for _, line := range page.Tasks {
		ids = append(ids, line.ID)
	}
	return ids
}

// A call that kills every worker uses up its deliveries, whatever its retry rule says, and is redriven once.
func TestPoisonIsGivenUpAndRedriven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short, func(c *orchestrator.Config) { c.Limits.MaxDeliveries = 4 })
		id := n.submit(stubbornPlan)
		require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
		key := ""
		for attempt := range 4 {
			c := n.take("w")
			require.Equal(t, attempt+1, c.Attempt)
			key = c.Key()
			<-time.After(3 * time.Second)
		}
		n.none("w")
		r := n.result(id)
		require.Equal(t, statemachine.Failed, r.State)
		require.Equal(t, fault.WorkerLost, r.Error.Code)
		assert.Equal(t, "MAX_DELIVERIES", r.Error.Reason)
		assert.Contains(t, r.Error.Message, "lost 4 workers")
		assert.Equal(t, 4, n.step(id, "bad").Attempt)
		assert.Equal(t, 4, n.step(id, "bad").Lost)
		assert.Equal(t, "orch redrive "+string(id), n.cause(id).Next)
		assert.Equal(t, []events.TaskID{id}, n.deadList())

		again, err := n.Redrive(n.ctx(), api.RedriveRequest{ID: id})
		require.NoError(t, err)
		assert.Equal(t, 1, again.Reused)
		assert.Empty(t, n.deadList())
		twice, err := n.Redrive(n.ctx(), api.RedriveRequest{ID: id})
		require.NoError(t, err)
		assert.True(t, twice.Existing)
		assert.Equal(t, again.ID, twice.ID, "redriving is done once")

		c := n.take("w")
		assert.Equal(t, again.ID, c.Task)
		assert.Equal(t, key, c.Key(), "the call may have happened: it keeps its idempotency key")
		require.NoError(t, n.report("w", c, `{"n":2}`))
		assert.Equal(t, statemachine.Done, n.result(again.ID).State)
		_, err = n.Redrive(n.ctx(), api.RedriveRequest{ID: again.ID})
		hasCode(t, err, fault.StateNotAllowed)
		n.checkIdle()
	})
}

// A call whose workers are stopped in every delivery is not dispatched forever.
func TestEndlessShutdownsAreGivenUp(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Limits.MaxDeliveries = 1 })
	id := n.submit(onePlan)
	for range 10 {
		require.NoError(t, n.fail("w", n.take("w"), "shutdown"))
	}
	r := n.result(id)
	require.Equal(t, statemachine.Failed, r.State)
	assert.Equal(t, "MAX_DELIVERIES", r.Error.Reason)
}

// A verify tool that reports again and again that the call did not happen does not use up endless workers.
func TestVerifyToolDoesNotFeedPoison(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short, func(c *orchestrator.Config) { c.Limits.MaxDeliveries = 2 })
		id := n.submit(verifiedPlan)
		for range 2 {
			c := n.take("w")
			require.Equal(t, "WRITE", c.Tool)
			require.NoError(t, n.Start(n.ctx(), startedBy("w", c)))
			<-time.After(overrun)
			require.NoError(t, n.report("v", n.take("v"), `{"n":0}`))
		}
		n.none("w")
		v := n.get(id)
		require.Equal(t, statemachine.Blocked, v.State)
		assert.Contains(t, v.Reason, "lost 2 workers")
		assert.Equal(t, []events.TaskID{id}, n.deadList())
		_, err := n.Redrive(n.ctx(), api.RedriveRequest{ID: id})
		hasCode(t, err, fault.InDoubt)
		_, err = n.Resolve(n.ctx(), api.ResolveRequest{ID: id, Step: "a", As: "retry"})
		require.NoError(t, err)
		assert.Equal(t, 3, n.take("w").Attempt, "a person may risk one more worker")
	})
}

// A call that was lost twice beside a poisonous one is not lost with it a third time.
func TestNoWorkerGetsTwoSuspects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		bad, good := n.submit(onePlan), n.submit(onePlan)
		for range 2 {
			require.Len(t, n.poll("w", 2).Calls, 2)
			<-time.After(5 * time.Second)
		}
		first := n.poll("w", 2).Calls
		require.Len(t, first, 1, "one suspect at a time")
		n.none("w")
		fresh := n.submit(onePlan)
		assert.Equal(t, fresh, n.take("w").Task, "other calls still come")
		second := n.poll("x", 2).Calls
		require.Len(t, second, 1, "another worker takes the other one")
		assert.ElementsMatch(t, []events.TaskID{bad, good}, []events.TaskID{first[0].Task, second[0].Task})
		require.NoError(t, n.report("x", *second[0], `{}`))
		assert.Equal(t, statemachine.Done, n.result(second[0].Task).State)
		<-time.After(5 * time.Second)
		r := n.result(first[0].Task)
		require.Equal(t, statemachine.Failed, r.State)
		assert.Contains(t, r.Error.Message, "lost 3 workers")
	})
}

// A worker that waits beside one suspect gets the next one as soon as the first has ended.
func TestNextSuspectForAWaitingWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		n.submit(stubbornPlan)
		n.submit(stubbornPlan)
		for _, good := range n.poll("w", 2).Calls {
			require.NoError(t, n.report("w", *good, `{"n":1}`))
		}
		for range 2 { // both calls lose two workers
			require.Len(t, n.poll("w", 2).Calls, 2)
			<-time.After(3 * time.Second)
		}
		first := n.poll("v", 2).Calls
		require.Len(t, first, 1)
		second := make(chan []work.Call, 1)
		go func() { second <- n.polls("v", time.Second) }()
		synctest.Wait()
		require.Equal(t, 1, n.Pollers())
		require.NoError(t, n.report("v", *first[0], `{"n":1}`))
		synctest.Wait()
		require.Len(t, second, 1, "at once")
		calls := <-second
		require.Len(t, calls, 1)
		assert.NotEqual(t, first[0].Task, calls[0].Task)
		require.NoError(t, n.report("v", calls[0], `{"n":1}`))
	})
}
