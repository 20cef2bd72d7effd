package agent_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/agent"
)

// roll is a node with registered agents.
type roll struct {
	agents.Service

	members []agents.View
}

func (r roll) Agents(context.Context) ([]agents.View, error) { return r.members, nil }

// Registered agents are found by name and by role. A name that is a role, or the model of the client, takes nothing away.
func TestRegisteredAgents(t *testing.T) {
	t.Parallel()
	all := roll{members: []agents.View{
		{Member: agents.Member{Name: "analyst", Profile: agents.Profile{Type: "developer"}}},
		{Member: agents.Member{Name: "cy", Profile: agents.Profile{Type: "analyst"}}},
		{Member: agents.Member{Name: "model", Profile: agents.Profile{Type: "developer"}}},
	}}
	b := newBench(t, agent.Config{Registered: func() agents.Service { return all }})
	for name, field := range map[string]string{"cy": `"agent":"cy"`, "analyst": `"type":"analyst"`, "developer": `"type":"developer"`} {
		require.NoError(t, b.spawn(name, "do it", ""))
		assert.Contains(t, string(b.child.Plan), field)
	}
	for _, name := range []string{"model", "coordinator"} {
		err := b.spawn(name, "do it", "")
		assert.Equal(t, fault.NotFound, fault.CodeOf(err), name)
	}
}
