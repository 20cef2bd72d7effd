package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/agent"
)

// roll is a node with registered agents.
type roll struct {
	agents.Service

	members []agents.View
}

func (r roll) Agents(context.Context) ([]agents.View, error) { return r.members, nil }

// Registered agents are found by name and by role. An agent whose name is a role, or the model of the client, does
// not take over its work.
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

// The inputs of AGENT_TASK accept every capability that an agent may have.
func TestRequiredNamesAreThoseOfCapabilities(t *testing.T) {
	t.Parallel()
	var task tools.Tool
	for _, one := range agent.Tools(agent.Config{}) {
		if one.Spec().Name == agent.TaskName {
			task = one
		}
	}
	require.NotNil(t, task)
	for _, name := range []string{"b", "build", strings.Repeat("b", 64), strings.Repeat("b", 65), ""} {
		profile := agents.Profile{
			Type: "developer", Version: "1.0.0", MaxTasks: 1, Timeout: time.Minute,
			Capabilities: []agents.Capability{{Name: name, Category: "work"}},
		}
		_, err := task.Check(json.RawMessage(`{"title": "build it", "requires": ["` + name + `"]}`))
		assert.Equal(t, profile.Check("bob") == nil, err == nil, "%d bytes", len(name))
	}
}
