package node_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/node"
)

// A new agent gets nothing that was for a removed or expired agent of the same name, also after a restart. The first agent of a
// name gets what was sent to the name before.
func TestNameThatWasAnothers(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP = "127.0.0.1:0"
	n := start(t, cfg)
	tell(t, n, "first", "agent:ada")
	enrol(t, n, "ada", 1, "build")
	assert.Equal(t, []string{"first"}, inbox(t, n, "agent:ada"))
	_, err := n.Messages().Group(t.Context(), "agent:ada", messages.GroupChange{Join: "ops"})
	require.NoError(t, err)
	tell(t, n, "group", "group:ops")
	_, err = n.Agents().Remove(t.Context(), agents.Removal{Agent: "ada", By: "user:test"})
	require.NoError(t, err)
	tell(t, n, "removed", "agent:ada")
	require.NoError(t, n.Stop(t.Context()))

	n = start(t, cfg)
	enrol(t, n, "ada", 1, "build")
	assert.Empty(t, inbox(t, n, "agent:ada"))
	tell(t, n, "new", "agent:ada")
	tell(t, n, "not in it", "group:ops")
	assert.Equal(t, []string{"new"}, inbox(t, n, "agent:ada"))
	_, err = enrolAs(t, n, "ada", "user:test")
	require.Error(t, err, "the name is taken")
	assert.Equal(t, []string{"new"}, inbox(t, n, "agent:ada"), "which takes nothing from who has it")

	_, _, err = bus.IssueToken(t.Context(), n.Tokens(), bus.NewToken{Name: "bob", Role: bus.RoleAgent, Actor: "user:test", Life: time.Millisecond})
	require.NoError(t, err)
	tell(t, n, "old", "agent:bob")
	require.Eventually(t, func() bool {
		_, err := enrolAs(t, n, "bob", "user:test")
		return err == nil
	}, time.Minute, time.Millisecond)
	assert.Empty(t, inbox(t, n, "agent:bob"))
}

func tell(t *testing.T, n *node.Node, text string, to ...string) {
	t.Helper()
	payload, err := json.Marshal(text)
	require.NoError(t, err)
	_, err = n.Messages().Send(t.Context(), "user:test", messages.Draft{To: to, Payload: payload})
	require.NoError(t, err)
}

func inbox(t *testing.T, n *node.Node, who string) []string {
	t.Helper()
	page, err := n.Messages().Inbox(t.Context(), who, messages.Query{})
	require.NoError(t, err)
	var texts []string
	for _, m := range page.Messages {
		var text string
		require.NoError(t, json.Unmarshal(m.Payload, &text))
		texts = append(texts, text)
	}
	return texts
}
