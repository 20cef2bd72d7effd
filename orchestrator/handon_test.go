package orchestrator_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// After a refused hand-on, the agent still holds the call, also after a restart. Handing a call to nobody in particular needs
// no permission.
func TestHandOffIsRefused(t *testing.T) {
	t.Parallel()
	var asked []decide.HandOn
	strict := func(c *orchestrator.Config) {
		c.Hooks.HandOn = func(h decide.HandOn) error {
			asked = append(asked, h)
			if h.To.Agent == "ada" {
				return fault.New(fault.Forbidden, "not to ada").WithField("hand_to")
			}
			return nil
		}
	}
	log := memlog.New(memlog.Config{})
	n := start(t, log, patient, strict)
	id := n.submit("orch: v1\nname: for one\nsteps:\n  - {id: a, tool: AGENT, with: {requires: [cite]}}\n")
	bob := &work.Agent{Name: "bob", Capabilities: []string{"cite"}}
	require.Equal(t, []string{"a"}, n.askAs(bob))
	ref := work.Ref{Task: id, Step: "a", Attempt: 1}
	n.began(ref, "bob")
	hand := func(to events.Agents) error {
		return n.Report(n.ctx(), work.Outcome{Ref: ref, Worker: "agent:bob", Class: "handoff", HandTo: &to, Error: fault.New(fault.Unavailable, "not mine")})
	}
	require.True(t, fault.Has(hand(events.Agents{Agent: "ada"}), fault.Forbidden))
	assert.Equal(t, []decide.HandOn{{
		Tool: "AGENT", Requester: "user:test", By: "agent:bob", From: events.Agents{Requires: []string{"cite"}}, To: events.Agents{Agent: "ada"},
	}}, asked)
	assert.Equal(t, statemachine.StepRunning, n.step(id, "a").State)
	assert.Equal(t, "agent:bob", n.step(id, "a").Worker)

	n.stop()
	n = start(t, log, patient, strict)
	require.True(t, fault.Has(hand(events.Agents{Agent: "ada"}), fault.Forbidden))
	assert.Empty(t, n.askAs(&work.Agent{Name: "ada", Capabilities: []string{"cite"}}))
	require.NoError(t, hand(events.Agents{Agent: "cy"}))
	asked = nil
	require.Equal(t, []string{"a"}, n.askAs(&work.Agent{Name: "cy"}))
	ref.Attempt = 2
	n.began(ref, "cy")
	require.NoError(t, n.Report(n.ctx(), work.Outcome{
		Ref: ref, Worker: "agent:cy", Class: "handoff", HandTo: &events.Agents{}, Error: fault.New(fault.Unavailable, "not now"),
	}))
	assert.Empty(t, asked, "it is for those that it was for")
	assert.Equal(t, statemachine.StepReady, n.step(id, "a").State)
	n.checkReplay(id)
}
