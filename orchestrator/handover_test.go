package orchestrator_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// The agent that gets a call which was handed on learns who has done that, why and with which data, also after a restart, and
// if an agent in between was lost or added nothing. The first agent of a call gets nothing.
func TestHandoverIsTold(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log, patient)
	n.submit(oneForAgents)
	take := func(name string) work.Call {
		b, err := n.Poll(n.ctx(), work.Poll{Worker: "agent:" + name, Queues: []string{"agents"}, Free: 1, Wait: time.Minute, Agent: &work.Agent{Name: name}})
		require.NoError(t, err)
		require.Len(t, b.Calls, 1)
		return *b.Calls[0]
	}
	first := take("ada")
	assert.Empty(t, first.Handover)
	n.began(first.Ref, "ada")
	hand := func(ref work.Ref, by, why string, data json.RawMessage) {
		require.NoError(t, n.Report(n.ctx(), work.Outcome{
			Ref: ref, Worker: "agent:" + by, StartedAt: time.Now(), Class: fault.ClassHandoff, HandTo: new(events.Agents), Handed: data,
			Error: fault.New(fault.Unavailable, "the agent %s has handed the call on: %s", by, why),
		}))
	}
	hand(first.Ref, "ada", "too steep", json.RawMessage(`{"done":["a"]}`))
	n.stop()
	n = start(t, log, patient)
	second := take("bob")
	assert.Equal(t, "the agent ada has handed the call on: too steep", second.Handover)
	assert.JSONEq(t, `{"done":["a"]}`, string(second.Handed))
	hand(second.Ref, "bob", "too flat", nil)
	third := take("cleo")
	assert.Equal(t, "the agent bob has handed the call on: too flat", third.Handover)
	assert.JSONEq(t, `{"done":["a"]}`, string(third.Handed), "bob has added nothing")
	large := json.RawMessage(`"` + strings.Repeat("x", 60<<10) + `"`)
	hand(third.Ref, "cleo", "too long", large)
	assert.Equal(t, string(large), string(take("ada").Handed))
}
