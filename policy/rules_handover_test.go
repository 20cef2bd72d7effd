package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
)

func handOn(from, to events.Agents) policy.Handover {
	return policy.Handover{Spec: *agentCall(`{}`).Spec, Requester: "user:mia", By: "agent:ada", From: from, To: to}
}

// A handover is evaluated like the original call for the new agents; a repeated ask that was already granted is
// ignored.
func TestHandOnIsJudged(t *testing.T) {
	t.Parallel()
	anybody, bob, analyst := events.Agents{}, events.Agents{Agent: "bob"}, events.Agents{Type: "analyst"}
	for _, tc := range []struct {
		rule     string
		from, to events.Agents
		want     fault.Code
	}{
		{one("deny", "recipients", "agent:bob"), anybody, bob, fault.Forbidden},
		{one("deny", "recipients", "agent:bob"), anybody, events.Agents{Agent: "cy"}, ""},
		{one("deny", "recipients", "type:analyst"), bob, analyst, fault.Forbidden},
		{one("deny", "tools", "AGENT_TASK"), anybody, bob, fault.Forbidden},
		{one("deny", "tools", "BASH_EXECUTE"), anybody, bob, ""},
		{one("allow", "recipients", "agent:bob"), anybody, bob, ""},
		{one("allow", "recipients", "agent:bob"), anybody, analyst, fault.Forbidden},
		{one("ask", "recipients", "agent:bob"), events.Agents{Agent: "cy"}, bob, fault.ApprovalRequired},
		{one("ask", "recipients", "type:analyst"), events.Agents{Agent: "cy"}, analyst, fault.ApprovalRequired},
		// The type of an agent is unknown if only its name is given.
		{one("deny", "recipients", "type:analyst"), events.Agents{Agent: "cy"}, bob, fault.ApprovalRequired},
		{one("deny", "recipients", "type:analyst"), events.Agents{Agent: "cy"}, events.Agents{Agent: "bob", Type: "developer"}, ""},
		{one("deny", "recipients", "agent:bob"), analyst, events.Agents{Requires: []string{"cite"}}, fault.ApprovalRequired},
		// The call was already permitted for all of them.
		{one("ask", "recipients", "agent:bob"), anybody, bob, ""},
		{one("ask", "recipients", "agent:*"), analyst, events.Agents{Type: "analyst", Agent: "bob"}, ""},
		{one("ask", "recipients", "agent:*"), events.Agents{Requires: []string{"cite"}}, events.Agents{Requires: []string{"build", "cite"}}, ""},
		{one("ask", "recipients", "agent:*"), events.Agents{Requires: []string{"cite"}}, events.Agents{Requires: []string{"build"}}, fault.ApprovalRequired},
		{one("ask", "recipients", "agent:*"), bob, bob, ""},
		// It is evaluated for the submitter of the call, and for the agent.
		{"rules: [{name: r, action: deny, agents: [\"agent:ada\"], recipients: [\"agent:bob\"]}]", anybody, bob, fault.Forbidden},
		{"rules: [{name: r, action: deny, agents: [\"user:mia\"], recipients: [\"agent:bob\"]}]", anybody, bob, fault.Forbidden},
		{"rules: [{name: r, action: deny, agents: [\"agent:cy\"], recipients: [\"agent:bob\"]}]", anybody, bob, ""},
		// An ask for one of them does not hide a denial for the other.
		{"rules: [{name: a, action: deny, recipients: [\"type:analyst\"]}, {name: b, action: deny, agents: [\"agent:*\"], recipients: [\"agent:bob\"]}]", anybody, bob, fault.Forbidden},
		// A rule about only the agent was not evaluated for the call.
		{"rules: [{name: r, action: deny, agents: [\"agent:ada\"], recipients: [\"type:analyst\"]}]", anybody, bob, fault.ApprovalRequired},
		{"rules: [{name: r, action: deny, agents: [\"agent:ada\"], recipients: [\"agent:bob\"]}]", anybody, events.Agents{Requires: []string{"cite"}}, fault.ApprovalRequired},
		{"rules: [{name: r, action: ask, agents: [\"agent:ada\"], recipients: [\"agent:bob\"]}]", anybody, bob, fault.ApprovalRequired},
		{"rules: [{name: r, action: ask, agents: [\"agent:ada\"], tools: [AGENT_TASK]}]", anybody, bob, fault.ApprovalRequired},
	} {
		err := withRules(t, tc.rule).CheckHandover(handOn(tc.from, tc.to))
		if tc.want == "" {
			require.NoError(t, err, "%s: %v to %v", tc.rule, tc.from, tc.to)
			continue
		}
		require.Error(t, err, "%s: %v to %v", tc.rule, tc.from, tc.to)
		assert.Equal(t, tc.want, fault.CodeOf(err), "%s: %v to %v", tc.rule, tc.from, tc.to)
		f := fault.From(err)
		assert.Equal(t, "hand_to", f.Field)
		assert.NotEmpty(t, f.Hint)
		assert.NotEmpty(t, f.Reason)
	}
	assert.NoError(t, newPolicy(t, policy.Config{}).CheckHandover(handOn(anybody, bob)), "there is no file")
}
