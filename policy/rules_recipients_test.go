package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

func messageCall(args string) *policy.Call {
	return &policy.Call{
		Spec:  &tools.Spec{Name: "MESSAGE_SEND", Effect: tools.Idempotent, Gate: tools.InProgress, Approval: tools.NoApproval, Recipients: "to"},
		State: statemachine.InProgress, Args: json.RawMessage(args),
	}
}

func agentCall(args string) *policy.Call {
	return &policy.Call{
		Spec:  &tools.Spec{Name: "AGENT_TASK", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.NoApproval, ForAgents: true},
		State: statemachine.InProgress, Args: json.RawMessage(args),
	}
}

func TestRulesOfRecipientsOfMessages(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		action, pattern, args string
		want                  policy.Action
	}{
		{"deny", "user:*", `{"to":["user:ada"]}`, "deny"},
		{"deny", "user:*", `{"to":["agent:bob","user:ada"]}`, "deny"},
		{"deny", "user:*", `{"to":["agent:bob"]}`, "allow"},
		{"deny", "user:ada", `{"to":["user:adam"]}`, "allow"},
		{"deny", "group:*", `{"to":["group:devs"]}`, "deny"},
		{"deny", "group:ops", `{"to":["group:devs"]}`, "allow"},
		{"deny", "all", `{"to":["all"]}`, "deny"},
		{"deny", "all", `{"to":["group:devs"]}`, "allow"},
		{"deny", "*", `{"to":["group:devs"]}`, "deny"},
		// Whoever is in a group, is all, or is answered may be the one.
		{"deny", "user:ada", `{"to":["group:devs"]}`, "ask"},
		{"deny", "user:ada", `{"to":["all"]}`, "ask"},
		{"deny", "*:ada", `{"to":["all"]}`, "ask"},
		{"deny", "user:ada", `{"reply_to":"MSG_1"}`, "ask"},
		{"deny", "group:devs", `{"reply_to":"MSG_1"}`, "allow"},
		{"deny", "group:devs", `{"to":["all"]}`, "allow"},
		{"ask", "all", `{"to":["all"]}`, "ask"},
		{"ask", "all", `{"to":["user:ada"]}`, "allow"},
		{"allow", "agent:*", `{"to":["agent:bob","agent:cy"]}`, "allow"},
		{"allow", "agent:*", `{"to":["agent:bob","user:ada"]}`, "deny"},
		{"allow", "agent:*", `{"to":["all"]}`, "deny"},
		{"allow", "agent:*", `{"reply_to":"MSG_1"}`, "deny"},
		{"allow", "group:devs", `{"to":["group:devs"]}`, "allow"},
	} {
		got := withRules(t, one(tc.action, "recipients", tc.pattern)).EvaluateRules(messageCall(tc.args))
		assert.Equal(t, tc.want, got.Action, "%s %s: %s", tc.action, tc.pattern, tc.args)
	}
}

func TestRulesOfAgentsThatAreGivenWork(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		action, pattern, args string
		want                  policy.Action
	}{
		{"deny", "agent:bob", `{"agent":"bob"}`, "deny"},
		{"deny", "agent:bob", `{"agent":"cy"}`, "allow"},
		{"deny", "type:analyst", `{"type":"analyst"}`, "deny"},
		{"deny", "type:analyst", `{"type":"developer"}`, "allow"},
		{"deny", "type:*", `{"agent":"bob","type":"developer"}`, "deny"},
		{"deny", "user:*", `{"agent":"bob"}`, "allow"},
		{"deny", "all", `{}`, "allow"},
		// Which agent claims the call, or its type, is unknown before.
		{"deny", "agent:bob", `{"type":"developer"}`, "ask"},
		{"deny", "agent:bob", `{}`, "ask"},
		{"deny", "type:analyst", `{"agent":"bob"}`, "ask"},
		{"allow", "agent:bob", `{"agent":"bob"}`, "allow"},
		{"allow", "agent:bob", `{"type":"developer"}`, "deny"},
		{"allow", "type:analyst", `{"agent":"bob","type":"analyst"}`, "allow"},
	} {
		got := withRules(t, one(tc.action, "recipients", tc.pattern)).EvaluateRules(agentCall(tc.args))
		assert.Equal(t, tc.want, got.Action, "%s %s: %s", tc.action, tc.pattern, tc.args)
	}
}

// Tools that send nothing have no recipients.
func TestRulesOfRecipientsMatchNothingElse(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]policy.Action{"deny": "allow", "allow": "deny"} {
		assert.Equal(t, want, withRules(t, one(action, "recipients", "*")).EvaluateRules(bashCall("ls")).Action)
	}
}
