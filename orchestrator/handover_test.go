package orchestrator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// Who gets a call that was handed on reads who has done that, and why; the first agent of a call reads nothing.
func TestHandoverIsTold(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	n.submit(oneForAgents)
	take := func(name string) work.Call {
		b, err := n.Poll(n.ctx(), work.Poll{Worker: "agent:" + name, Queues: []string{"agents"}, Free: 1, Wait: time.Minute, Agent: &work.Agent{Name: name}})
		require.NoError(t, err)
		require.Len(t, b.Calls, 1)
		return b.Calls[0]
	}
	first := take("ada")
	assert.Empty(t, first.Handover)
	n.began(first.Ref, "ada")
	require.NoError(t, n.Report(n.ctx(), work.Outcome{
		Ref: first.Ref, Worker: "agent:ada", StartedAt: time.Now(), Class: fault.ClassHandoff, HandTo: new(events.Agents),
		Error: fault.New(fault.Unavailable, "the agent ada has handed the call on: too steep"),
	}))
	assert.Equal(t, "the agent ada has handed the call on: too steep", take("bob").Handover)
}
