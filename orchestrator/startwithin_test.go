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
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

const impatientPlan = `
orch: v1
name: impatient
steps:
  - {id: a, tool: AGENT, with: {agent: ada}, start_within: 10m, on_error: continue}
  - {id: b, tool: READ, if: '${{ steps.a.state == "failed" }}', with: {n: 1}}
`

// A call that nobody takes in time fails, and its plan continues according to on_error. A restart starts the time again.
func TestCallThatNobodyTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, short)
		id := n.submit(impatientPlan)
		assert.Contains(t, n.cause(id).Sentence, "waits for the agent ada, and no such agent is online. It is given up at ")
		<-time.After(9 * time.Minute)
		n.none("w")
		n.stop()
		<-time.After(time.Hour)
		n = start(t, log, short)
		<-time.After(9*time.Minute + 59*time.Second)
		n.none("w")
		assert.Equal(t, statemachine.StepReady, n.step(id, "a").State)
		<-time.After(2 * time.Second)
		s := n.step(id, "a")
		require.Equal(t, statemachine.StepFailed, s.State)
		assert.Equal(t, fault.Timeout, s.Error.Code)
		assert.Equal(t, "nobody has taken the call within 10m0s; it waited for the agent ada", s.Error.Message)
		assert.Empty(t, n.askAs(&work.Agent{Name: "ada"}), "it is too late")
		require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.checkReplay(id)
		n.checkIdle()
	})
}

// A call that was taken in time has no further limit. If it is returned, its time starts again.
func TestCallThatIsTakenInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit("orch: v1\nname: taken\nsteps:\n  - {id: a, tool: AGENT, effect: idempotent, start_within: 10m, heartbeat: 1h}\n")
		ada := &work.Agent{Name: "ada"}
		ref := work.Ref{Task: id, Step: "a", Attempt: 1}
		<-time.After(9 * time.Minute)
		require.Equal(t, []string{"a"}, n.askAs(ada))
		n.began(ref, "ada")
		<-time.After(30 * time.Minute)
		assert.Equal(t, statemachine.StepRunning, n.step(id, "a").State)
		assert.NotContains(t, n.cause(id).Sentence, "given up at")
		n.giveBack(ref)
		<-time.After(9 * time.Minute)
		assert.Equal(t, statemachine.StepReady, n.step(id, "a").State)
		require.Equal(t, []string{"a"}, n.askAs(ada))
		<-time.After(2 * time.Minute)
		assert.Equal(t, statemachine.StepRunning, n.step(id, "a").State, "it is on its way through the gates")
		ref.Attempt = 2
		n.began(ref, "ada")
		require.NoError(t, n.Report(n.ctx(), work.Outcome{Ref: ref, Worker: "agent:ada", Output: []byte(`{}`)}))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.checkReplay(id)
	})
}

// The time also runs while there is no worker. Such a call is not queued again, unless the retry rule includes expired.
func TestCallsThatNoWorkerTakes(t *testing.T) {
	t.Parallel()
	for rule, attempts := range map[string]int{"": 1, ", retry: {max_attempts: 5}": 1, ", retry: {max_attempts: 2, on: [expired]}": 2} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}), short)
			id := n.submit("orch: v1\nname: no worker\nsteps:\n  - {id: a, tool: WRITE, queue: far, start_within: 1m" + rule + "}\n")
			<-time.After(time.Duration(attempts) * 59 * time.Second)
			require.Equal(t, statemachine.NeedsAction, n.get(id).State, rule)
			<-time.After(10 * time.Second)
			r := n.result(id)
			require.Equal(t, statemachine.Failed, r.State, rule)
			assert.Contains(t, r.Error.Message, "nobody has taken the call within 1m0s; it waited for a worker of queue far")
			assert.Equal(t, attempts, n.step(id, "a").Attempt)
			assert.Contains(t, n.kinds(id), events.StepFailed)
			n.checkReplay(id)
			n.checkIdle()
		})
	}
}

// The steps of items and `always` steps have their own limit. A call that was never sent continues to wait.
func TestEachItemIsTakenInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(`
orch: v1
name: items
steps:
  - id: each
    for_each: '${{ [1, 2] }}'
    on_item_error: continue
    do: [{id: a, tool: READ, queue: far, with: {n: 1}, start_within: 1m}]
always:
  - {id: last, tool: READ, queue: far, with: {n: 1}, start_within: 1m, on_error: continue}
`)
		b, err := n.Poll(n.ctx(), work.Poll{Worker: "w", Queues: []string{"far"}, Free: 1})
		require.NoError(t, err)
		require.Len(t, b.Calls, 1)
		n.Undelivered(b.Number) // it was not delivered
		<-time.After(61 * time.Second)
		assert.Equal(t, statemachine.StepFailed, n.step(id, "each[0].a").State)
		assert.Equal(t, statemachine.StepFailed, n.step(id, "each[1].a").State)
		<-time.After(61 * time.Second)
		assert.Equal(t, statemachine.StepFailed, n.step(id, "last").State)
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.checkIdle()
	})
}

// A call that a worker holds when the node restarts stays leased, however short its start limit.
func TestCallThatWasTakenBeforeARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, short)
		id := n.submit("orch: v1\nname: taken\nsteps:\n  - {id: a, tool: READ, with: {n: 1}, start_within: 1ms, heartbeat: 1m}\n")
		c := n.take("w")
		n.stop()
		n = start(t, log, short)
		<-time.After(50 * time.Second)
		require.NoError(t, n.report("w", c, `{"n":1}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.checkReplay(id)
	})
}

// While a call may not be dispatched, its time does not run.
func TestCallThatNobodyMayTake(t *testing.T) {
	t.Parallel()
	const plan = "{orch: v1, steps: [{id: a, tool: READ, with: {n: 1}, start_within: 1m}]}"
	for name, of := range map[string]func(events.TaskID) api.PauseRequest{
		"task":  func(id events.TaskID) api.PauseRequest { return api.PauseRequest{ID: id} },
		"queue": func(events.TaskID) api.PauseRequest { return api.PauseRequest{Queue: "default"} },
		"tool":  func(events.TaskID) api.PauseRequest { return api.PauseRequest{Tool: "READ"} },
		"node":  func(events.TaskID) api.PauseRequest { return api.PauseRequest{Node: true} },
	} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}), short)
			id := n.submit(plan)
			n.pause(of(id))
			assert.NotContains(t, n.cause(id).Sentence, "given up at", name)
			<-time.After(10*time.Minute + time.Second)
			assert.Equal(t, statemachine.StepReady, n.step(id, "a").State, name)
			n.resume(of(id))
			assert.Equal(t, statemachine.StepReady, n.step(id, "a").State, name)
			<-time.After(61 * time.Second)
			assert.Equal(t, statemachine.StepFailed, n.step(id, "a").State, name)
			n.checkReplay(id)
		})
	}
}

// The time in which people decide about another step of the task does not count.
func TestCallThatWaitsForAnApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit("{orch: v1, steps: [{id: ok, approve: {description: d, timeout: 1h}}, {id: a, tool: WRITE, start_within: 1m}]}")
		<-time.After(30 * time.Minute)
		assert.Equal(t, statemachine.StepReady, n.step(id, "a").State)
		_, err := n.decide(n.pending().ID, "granted", "user:ada")
		require.NoError(t, err)
		<-time.After(59 * time.Second)
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.checkReplay(id)
	})
}
