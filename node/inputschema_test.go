package node_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// enrolTyped registers an agent with a capability that has an input schema.
func enrolTyped(t *testing.T, n *node.Node, name, capability, schema string) (peer.Credential, error) {
	t.Helper()
	var says any
	require.NoError(t, json.Unmarshal([]byte(schema), &says))
	can := agents.Capability{Name: capability, Category: "test", Parameters: map[string]any{"inputSchema": says}}
	task := events.NewTaskID(time.Now())
	m, err := n.Agents().Register(t.Context(), agents.Registration{Name: name, Task: task, By: "user:test", Profile: agents.Profile{
		Type: "developer", Version: "1.0.0", MaxTasks: 2, Timeout: time.Minute, Capabilities: []agents.Capability{can},
	}})
	if err != nil {
		return peer.Credential{}, err
	}
	got, err := n.Agents().Collect(t.Context(), agents.Collection{Task: task, By: "user:test"})
	require.NoError(t, err)
	return peer.Credential{URL: m.URL, Agent: m.ID, Name: name, MaxTasks: 2, Secret: got.Secret, IssuedAt: m.RegisteredAt, ExpiresAt: m.ExpiresAt}, nil
}

func buildOf(data string) string {
	return "orch: v1\nsteps: [{id: a, tool: AGENT_TASK, with: {title: build, requires: [build], data: " + data + "}}]\n"
}

// A call is dispatched to an agent whose capability accepts its data, and fails at once if there is none.
func TestDataFitsTheCapability(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP = "127.0.0.1:0"
	n := start(t, cfg)
	ada, err := enrolTyped(t, n, "ada", "build", `{"type":"object","required":["ref"],"properties":{"ref":{"type":"string"}}}`)
	require.NoError(t, err)
	id := submit(t, n.API(), buildOf("{ref: main}"))
	calls := given(t, ada)
	require.Len(t, calls, 1)
	assert.Equal(t, id, calls[0].Task)

	id = submit(t, n.API(), buildOf("{ref: 7}"))
	assert.Empty(t, claim(t, ada, 1, calls[0].Ref))
	require.Equal(t, statemachine.Failed, result(t, n.API(), id).State)
	task, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	why := task.Steps[0].Error
	assert.Equal(t, []string{string(fault.ValidationError), "data.ref", "INPUT_SCHEMA"}, []string{string(why.Code), why.Field, why.Reason})
	assert.Contains(t, why.Message, "build of the agent ada")

	bob, err := enrolTyped(t, n, "bob", "build", `{"properties":{"ref":{"type":"integer"}}}`)
	require.NoError(t, err)
	id = submit(t, n.API(), buildOf("{ref: 7}"))
	assert.Empty(t, claim(t, ada, 1, calls[0].Ref))
	other := given(t, bob)
	require.Len(t, other, 1)
	assert.Equal(t, id, other[0].Task)
	assert.Contains(t, other[0].Handover, "ada has not been given the call")
}

// An agent cannot be registered with an invalid schema, or one with external references.
func TestSchemasOfCapabilitiesAreChecked(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	for _, schema := range []string{
		`{"type":"strin"}`, `7`, `{"$ref":"https://example.org/x"}`, `{"properties":{"a":{"$ref":"#"}}}`, `{"pattern":"("}`,
		`{"description":"` + strings.Repeat("x", 17<<10) + `"}`,
	} {
		_, err := enrolTyped(t, n, "ada", "build", schema)
		require.Error(t, err, schema[:min(len(schema), 40)])
		assert.Equal(t, "capabilities.parameters.inputSchema", fault.From(err).Field)
	}
}
