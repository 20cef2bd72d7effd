package node_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

// renewed is the answer to a renewal.
type renewed struct {
	Key       string    `json:"key"`
	Secret    string    `json:"secret"`
	ExpiresAt time.Time `json:"expires_at"`
	Name      string    `json:"name"`
	Field     string    `json:"field"`
}

func renewAs(t *testing.T, cred peer.Credential, digest string) (int, renewed) {
	t.Helper()
	status, answer := say(t, cred, "/agents/credential", agents.Renewal{Digest: digest})
	var got renewed
	require.NoError(t, json.Unmarshal([]byte(answer), &got), answer)
	return status, got
}

// An agent chooses its next secret itself. A repetition with the same secret gets the same answer, in case the first one was
// lost.
func TestAgentMakesItsNextSecret(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada, bob := enrol(t, n, "ada", 1, "build"), enrol(t, n, "bob", 1, "build")
	before, err := n.Agents().Agents(t.Context())
	require.NoError(t, err)
	for _, digest := range []string{"00", strings.Repeat("x", 64), agents.DigestOf(bob.Secret), strings.ToUpper(agents.DigestOf(bob.Secret))} {
		status, got := renewAs(t, ada, digest)
		assert.Equal(t, http.StatusBadRequest, status, digest)
		assert.Equal(t, string(fault.ValidationError), got.Name)
		assert.Equal(t, "digest", got.Field)
	}
	fresh := ada
	fresh.Secret = agents.NewSecret()
	status, first := renewAs(t, ada, strings.ToUpper(agents.DigestOf(fresh.Secret)))
	require.Equal(t, http.StatusOK, status)
	assert.Empty(t, first.Secret, "nobody but the agent knows it")
	status, _ = renewAs(t, ada, agents.DigestOf(fresh.Secret))
	assert.Equal(t, http.StatusUnauthorized, status, "that one has ended")
	for range 2 {
		status, again := renewAs(t, fresh, agents.DigestOf(fresh.Secret))
		require.Equal(t, http.StatusOK, status)
		assert.Equal(t, first, again)
	}
	after, err := n.Agents().Agents(t.Context())
	require.NoError(t, err)
	assert.Equal(t, before[0].RegisteredAt, after[0].RegisteredAt, "it is the same agent")
	assert.NotEqual(t, before[0].Key, after[0].Key)
}

// sponsored issues a token and registers an agent as the identity of the token.
func sponsored(t *testing.T, n *node.Node, in bus.NewToken, agent string) (bus.Token, peer.Credential) {
	t.Helper()
	in.Actor = "user:test"
	token, _, err := bus.IssueToken(t.Context(), n.Tokens(), in)
	require.NoError(t, err)
	kind := "user:"
	if in.Role == bus.RoleAgent {
		kind = "agent:"
	}
	cred, err := enrolAs(t, n, agent, kind+in.Name)
	require.NoError(t, err)
	return token, cred
}

func enrolAs(t *testing.T, n *node.Node, name, by string) (peer.Credential, error) {
	t.Helper()
	task := events.NewTaskID(time.Now())
	m, err := n.Agents().Register(t.Context(), agents.Registration{
		Name: name, Task: task, By: by,
		Profile: agents.Profile{Type: "analyst", Version: "1.0.0", MaxTasks: 1, Timeout: time.Minute, Capabilities: []agents.Capability{{Name: "a", Category: "b"}}},
	})
	if err != nil {
		return peer.Credential{}, err
	}
	got, err := n.Agents().Collect(t.Context(), agents.Collection{Task: task, By: by})
	require.NoError(t, err)
	return peer.Credential{URL: m.URL, Agent: m.ID, Name: name, Secret: got.Secret, ExpiresAt: m.ExpiresAt}, nil
}

// The credential of an agent ends with the tokens of the identity that registered it, the first one and later ones.
func TestAgentsEndWithTheTokenThatRegisteredThem(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	token, ada := sponsored(t, n, bus.NewToken{Name: "sue", Role: bus.RoleSubmitter, Life: time.Hour}, "ada")
	assert.Equal(t, token.ExpiresAt, ada.ExpiresAt)
	status, got := renewAs(t, ada, agents.DigestOf(agents.NewSecret()))
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, token.ExpiresAt, got.ExpiresAt)

	_, eve := sponsored(t, n, bus.NewToken{Name: "boss", Role: bus.RoleOperator}, "eve")
	assert.WithinDuration(t, time.Now().Add(agents.CredentialLife), eve.ExpiresAt, time.Minute)
	parent, bob := sponsored(t, n, bus.NewToken{Name: "bot", Role: bus.RoleAgent, Life: 2 * time.Hour}, "bob")
	assert.Equal(t, parent.ExpiresAt, bob.ExpiresAt)
	child, err := enrolAs(t, n, "cyd", "agent:bob")
	require.NoError(t, err)
	assert.Equal(t, parent.ExpiresAt, child.ExpiresAt, "nor do those that they register in turn")

	for _, name := range []string{"boss", "bot"} {
		_, err := n.Tokens().RevokeToken(t.Context(), bus.RevokeToken{Token: name, Actor: "user:test"})
		require.NoError(t, err)
	}
	for _, cred := range []peer.Credential{eve, bob} {
		status, got = renewAs(t, cred, agents.DigestOf(agents.NewSecret()))
		assert.Equal(t, http.StatusForbidden, status, cred.Name)
		assert.Equal(t, string(fault.Forbidden), got.Name)
		status, _ = say(t, cred, "/agents/status", agents.Heartbeat{})
		assert.Equal(t, http.StatusOK, status, "it works until its own credential ends")
	}
	status, _ = renewAs(t, child, agents.DigestOf(agents.NewSecret()))
	assert.Equal(t, http.StatusOK, status, "who has registered it is still there")
}

// A task that remains when the token of its requester is revoked can register nobody. Without a token, its requester would look
// like an operator.
func TestNobodyRegistersAgentsWithoutAToken(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP, cfg.User = "127.0.0.1:0", "owner"
	n := start(t, cfg)
	sponsored(t, n, bus.NewToken{Name: "sue", Role: bus.RoleSubmitter, Life: time.Hour}, "ada")
	_, err := n.Tokens().RevokeToken(t.Context(), bus.RevokeToken{Token: "sue", Actor: "user:test"})
	require.NoError(t, err)
	_, err = enrolAs(t, n, "bob", "user:sue")
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	for i, who := range []string{"user:owner", "user:else"} {
		cred, err := enrolAs(t, n, "cyd-"+string(rune('a'+i)), who)
		require.NoError(t, err, who)
		status, _ := renewAs(t, cred, agents.DigestOf(agents.NewSecret()))
		assert.Equal(t, http.StatusOK, status)
	}
}
