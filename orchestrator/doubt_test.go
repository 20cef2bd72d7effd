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

// doubtful submits the plan, lets a worker start its call, and returns the call after the worker was silent for a lease.
func (n *node) doubtful(plan string, timeout time.Duration) (events.TaskID, work.Call) {
	n.t.Helper()
	id := n.submit(plan)
	c := n.take("w")
	require.NoError(n.t, n.Start(n.ctx(), work.Started{Ref: c.Ref, Worker: "w", Timeout: timeout}))
	<-time.After(3 * time.Second)
	require.Equal(n.t, statemachine.StepInDoubt, n.step(id, "a").State)
	return id, c
}

// refusals returns the results of a task that came too late.
func (n *node) refusals(id events.TaskID) []*events.Refused {
	n.t.Helper()
	h, err := n.History(n.ctx(), api.HistoryRequest{ID: id})
	require.NoError(n.t, err)
	var list []*events.Refused
	for _, c := range h.Commits {
		for _, e := range c.Events {
			if r, ok := e.Data.(*events.Refused); ok {
				list = append(list, r)
			}
		}
	}
	return list
}

// The call of a silent worker may have its effect until its time limit. Before that, the result of a verify tool does not
// count.
func TestVerifyWaitsForTheTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		began := time.Now()
		id, _ := n.doubtful(verifiedPlan, 5*time.Second)
		n.none("v")
		v := n.get(id)
		assert.Equal(t, statemachine.InProgress, v.State, "nobody has to decide anything")
		cause := n.cause(id)
		assert.Equal(t, "in_doubt", cause.Kind)
		assert.Equal(t, "orch resolve "+string(id)+" a --as … (succeeded, failed or retry)", cause.Next, "no shell and no orch runs it as it is")
		until := began.Add(15 * time.Second).Format("2006-01-02 15:04:05 MST")
		assert.Contains(t, cause.Sentence, "waits until "+until+", because worker w may still run attempt 1")
		<-time.After(11 * time.Second)
		n.none("v")
		<-time.After(time.Second)
		require.NoError(t, n.report("v", n.take("v"), `{"n":0}`))
		again := n.take("x")
		assert.Equal(t, 2, again.Attempt)
		require.NoError(t, n.report("x", again, `{"n":1}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.checkReplay(id)
		n.checkIdle()
	})
}

// A verify call that loses its worker is repeated by another one. After many losses a person decides.
func TestVerifyIsAskedAgain(t *testing.T) {
	t.Parallel()
	for losses, asked := range map[int]bool{2: true, 3: false} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}), short, func(c *orchestrator.Config) { c.Limits.MaxDeliveries = 3 })
			id, c := n.doubtful(verifiedPlan, 0)
			hasCode(t, n.fail("w", c, fault.ClassToolError), fault.Conflict)
			for range losses {
				probe := n.take("v")
				assert.Equal(t, "READ", probe.Tool)
				require.NoError(t, n.Start(n.ctx(), work.Started{Ref: probe.Ref, Worker: "v"}))
				<-time.After(3 * time.Second)
			}
			if asked {
				require.NoError(t, n.report("v", n.take("v"), `{"n":4}`))
				assert.Equal(t, statemachine.Done, n.result(id).State)
			} else {
				n.none("v")
				assert.Equal(t, statemachine.Blocked, n.get(id).State)
			}
			n.checkReplay(id)
		})
	}
}

// A late result is refused, but proves that the call has ended, so that verification need not wait.
func TestLateResultEndsTheWait(t *testing.T) {
	t.Parallel()
	for class := range map[string]bool{"": true, fault.ClassToolError: true, fault.ClassCancelled: true, fault.ClassShutdown: true} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}), short)
			id, c := n.doubtful(verifiedPlan, 0)
			n.none("v")
			if class == "" {
				hasCode(t, n.report("w", c, `{"n":9}`), fault.Conflict)
			} else {
				hasCode(t, n.fail("w", c, class), fault.Conflict)
			}
			refused := n.refusals(id)
			require.Len(t, refused, 1)
			assert.Equal(t, events.Refused{Step: "a", Attempt: 1, Tool: "WRITE", Worker: "w", Reason: "the step is in_doubt in attempt 1"}, *refused[0])
			require.NoError(t, n.report("v", n.take("v"), `{"n":4}`))
			assert.Equal(t, statemachine.Done, n.result(id).State)
			n.checkReplay(id)
		})
	}
}

// The wait is recorded in the log: a restarted node continues it.
func TestVerifyWaitsAcrossARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, short)
		id, _ := n.doubtful(verifiedPlan, 0)
		n.stop()
		n = start(t, log, short)
		<-time.After(11 * time.Second)
		n.none("v")
		<-time.After(2 * time.Second)
		require.NoError(t, n.report("v", n.take("v"), `{"n":4}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
	})
}

// Without a timeout of the step, the time limit that the worker reports for its call counts.
func TestVerifyWaitsForTheLimitOfTheCall(t *testing.T) {
	t.Parallel()
	const plan = "orch: v1\nsteps:\n  - {id: a, tool: WRITE, verify: {tool: READ, expect: output.n == 4}}\n"
	for limit, wait := range map[time.Duration]time.Duration{0: work.DefaultTimeout, 30 * time.Second: 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}), short)
			id, _ := n.doubtful(plan, limit)
			<-time.After(wait + 6*time.Second)
			n.none("v")
			<-time.After(2 * time.Second)
			require.NoError(t, n.report("v", n.take("v"), `{"n":4}`))
			assert.Equal(t, statemachine.Done, n.result(id).State)
		})
	}
}

// If the process of a worker has ended for certain, or a worker reports the end of a call, nobody waits for time limits.
func TestVerifyAsksAtOnceAboutAnEndedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, short)
		id := n.submit(verifiedPlan)
		c := n.take("w")
		require.NoError(t, n.Start(n.ctx(), startedBy("w", c)))
		require.NoError(t, n.fail("w", c, fault.ClassShutdown))
		require.NoError(t, n.report("v", n.take("v"), `{"n":0}`))
		c = n.take("w")
		require.NoError(t, n.Start(n.ctx(), startedBy("w", c)))
		n.stop()
		n = start(t, log, short, func(cfg *orchestrator.Config) { cfg.Gone = []string{"w"} })
		<-time.After(time.Second)
		assert.Equal(t, statemachine.StepInDoubt, n.step(id, "a").State)
		<-time.After(3 * time.Second)
		require.NoError(t, n.report("v", n.take("v"), `{"n":4}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
	})
}

// Without a verify tool nobody waits: a person decides, and is informed that the call may still run.
func TestPersonHearsWhatMayStillRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id, c := n.doubtful(writePlan, 0)
		assert.Equal(t, statemachine.Blocked, n.get(id).State)
		assert.Contains(t, n.cause(id).Sentence, "worker w may still run attempt 1")
		hasCode(t, n.report("w", c, `{"n":9}`), fault.Conflict)
		assert.NotContains(t, n.cause(id).Sentence, "may still run")
	})
}
