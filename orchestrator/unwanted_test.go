package orchestrator_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// giveBack ends an attempt of ada like the dispatcher does when she returns it.
func (n *node) giveBack(ref work.Ref) {
	n.t.Helper()
	require.NoError(n.t, n.Report(n.ctx(), work.Outcome{
		Ref: ref, Worker: "agent:ada", Class: "shutdown", Error: fault.New(fault.Unavailable, "the agent ada has given the call back: not now"),
	}))
}

// A call that agents return again and again uses up its deliveries. The error says that no worker was lost.
func TestUnwantedCallIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short, func(c *orchestrator.Config) { c.Limits.MaxDeliveries = 2 })
		id := n.submit("orch: v1\nname: unwanted\nsteps:\n  - {id: a, tool: AGENT, effect: idempotent}\n")
		ada := &work.Agent{Name: "ada"}
		for attempt := 1; attempt <= 20; attempt++ {
			require.Equal(t, []string{"a"}, n.askAs(ada), "attempt %d", attempt)
			n.began(work.Ref{Task: id, Step: "a", Attempt: attempt}, "ada")
			if attempt == 2 { // the call is lost with her
				<-time.After(2 * work.AgentLease)
				continue
			}
			n.giveBack(work.Ref{Task: id, Step: "a", Attempt: attempt})
			switch attempt {
			case 1:
				assert.Contains(t, n.cause(id).Sentence, "waits for an agent to be free; agents have given it back once.")
			case 15:
				assert.Contains(t, n.cause(id).Sentence, "; agents have given it back 14 times, and it was lost with them, or in doubt, once.")
			}
		}
		require.Equal(t, []string{"a"}, n.askAs(ada))
		n.giveBack(work.Ref{Task: id, Step: "a", Attempt: 21})
		r := n.result(id)
		require.Equal(t, statemachine.Failed, r.State)
		assert.Equal(t, fault.WorkerLost, r.Error.Code)
		assert.Equal(t, "MAX_DELIVERIES", r.Error.Reason)
		assert.Equal(t, "step a: agents have given it back 20 times, and it was lost with them, or in doubt, once; "+
			"the last one: the agent ada has given the call back: not now", r.Error.Message)
		assert.NotContains(t, r.Error.Hint, "worker")
		assert.Contains(t, n.cause(id).Sentence, "agents have given it back 20 times")
		n.checkReplay(id)
	})
}

// The error of a call that agents leave in doubt again and again says so.
func TestDoubtsThatAgentsLeave(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	id := n.submit(onePlanForAgents)
	for attempt := 1; attempt <= 2; attempt++ {
		require.Equal(t, []string{"a"}, n.askAs(&work.Agent{Name: "ada"}))
		ref := work.Ref{Task: id, Step: "a", Attempt: attempt}
		n.began(ref, "ada")
		n.giveBack(ref)
		require.Equal(t, statemachine.Blocked, n.get(id).State, "attempt "+strconv.Itoa(attempt))
		if attempt == 1 {
			_, err := n.Resolve(n.ctx(), api.ResolveRequest{ID: id, Step: "a", As: "retry"})
			require.NoError(t, err)
		}
	}
	assert.Equal(t, "it is unknown whether step a took effect: it was lost with agents, or in doubt, 2 times", n.get(id).Reason)
}
