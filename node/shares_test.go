package node_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// register registers an agent for an identity, and returns its credential.
func register(t *testing.T, n *node.Node, name, by string) peer.Credential {
	t.Helper()
	task := events.NewTaskID(time.Now())
	m, err := n.Agents().Register(t.Context(), agents.Registration{
		Name: name, Task: task, By: by,
		Profile: agents.Profile{Type: "analyst", Version: "1.0.0", MaxTasks: 1, Timeout: time.Minute, Capabilities: []agents.Capability{{Name: "a", Category: "b"}}},
	})
	require.NoError(t, err)
	got, err := n.Agents().Collect(t.Context(), agents.Collection{Task: task, By: by})
	require.NoError(t, err)
	return peer.Credential{URL: m.URL, Agent: m.ID, Name: name, Secret: got.Secret}
}

// submitFor submits one call with a priority for somebody.
func submitFor(t *testing.T, n *node.Node, who, priority, tool string) events.TaskID {
	t.Helper()
	reply, err := n.API().Submit(t.Context(), api.SubmitRequest{
		Plan: []byte(`{"orch":"v1","priority":"` + priority + `","steps":[{"id":"a","tool":"` + tool + `"}]}`), Actor: who,
	})
	require.NoError(t, err)
	return reply.ID
}

// hanging is a tool that signals when a call starts. The call ends when end is closed, or with its context.
func hanging(began chan<- struct{}, end <-chan struct{}) tools.Tool {
	spec := tools.Spec{Name: "test.holds", Purpose: "test", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval, NoWorkspace: true, Timeout: 10 * time.Minute}
	return tools.Define(spec, func(ctx context.Context, _ *tools.Env, _ failIn) (failOut, error) {
		began <- struct{}{}
		select {
		case <-end:
			return failOut{}, nil
		case <-ctx.Done():
			return failOut{}, ctx.Err()
		}
	})
}

// One agent that registers four others, which register more, gets no more slots than one. While their calls hang, critical ones
// too, those of another agent and of an operator continue.
func TestRegisteringAgentsBringsNoShares(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}, 100), make(chan struct{})
	cfg := config(t)
	cfg.Worker.Concurrency, cfg.Extra = 5, append(failing(), hanging(began, end))
	n := start(t, cfg)
	t.Cleanup(func() { close(end) }) // so that the node need not wait for them
	register(t, n, "hog", "user:test")
	register(t, n, "other", "user:test")
	register(t, n, "hog-1", "agent:hog")
	register(t, n, "hog-2", "agent:hog-1")
	register(t, n, "hog-3", "agent:hog-2")
	register(t, n, "hog-4", "agent:hog")
	var held []events.TaskID
	for _, who := range []string{"agent:hog-1", "agent:hog-2", "agent:hog-3", "agent:hog-4"} {
		held = append(held, submitFor(t, n, who, "critical", "test.holds"))
	}
	for range 3 {
		<-began
	}
	read := submitFor(t, n, "agent:other", "critical", "test.fail")
	assert.Equal(t, statemachine.Done, result(t, n.API(), read).State)
	read = submitFor(t, n, "user:test", "low", "test.fail")
	assert.Equal(t, statemachine.Done, result(t, n.API(), read).State)
	for _, id := range held {
		v, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
		require.NoError(t, err)
		assert.False(t, v.State.Terminal(), "it hangs or waits")
	}
	assert.Empty(t, began, "the last one of them has waited")
}

// The share of an agent is resolved when it is registered, to the end of the chain. It stays when the agent renews its
// credential, and when agents in between are removed.
func TestShareOfAnAgent(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	for _, token := range []bus.NewToken{{Name: "sue", Role: bus.RoleSubmitter}, {Name: "bot", Role: bus.RoleAgent}} {
		token.Actor = "user:test"
		_, _, err := bus.IssueToken(t.Context(), n.Tokens(), token)
		require.NoError(t, err)
	}
	register(t, n, "of-operator", "user:test")
	register(t, n, "of-sue", "user:sue")
	register(t, n, "of-bot", "agent:bot")
	status, _ := renewAs(t, register(t, n, "below", "agent:of-bot"), "")
	require.Equal(t, http.StatusOK, status)
	assert.Equal(t, "agent:bot", n.Tokens().ShareOf("agent:below"))
	register(t, n, "deep", "agent:below")
	_, err := n.Tokens().RevokeToken(t.Context(), bus.RevokeToken{Token: "below", Actor: "user:test"})
	require.NoError(t, err)
	for who, share := range map[string]string{
		"agent:of-operator": "", "agent:of-sue": "user:sue", "agent:of-bot": "agent:bot", "agent:deep": "agent:bot",
		"agent:bot": "", "user:sue": "", "user:deep": "", "agent:nobody": "",
	} {
		assert.Equal(t, share, n.Tokens().ShareOf(who), who)
	}
}

// The requests of agents count together with those of the identity that registered them.
func TestRequestsOfRegisteredAgentsAreCountedTogether(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	register(t, n, "hog", "user:test")
	register(t, n, "hog-1", "agent:hog")
	register(t, n, "hog-2", "agent:hog-1")
	register(t, n, "other", "user:test")
	face := n.Meter()
	for range server.MaxHeld / server.MaxBody {
		_, err := face.Admit("agent:hog-1", server.MaxBody)
		require.NoError(t, err)
	}
	_, err := face.Admit("agent:hog-2", server.MaxBody)
	assert.True(t, fault.Has(err, fault.RateLimited), "%v", err)
	_, err = face.Admit("agent:other", server.MaxBody)
	require.NoError(t, err)
}
