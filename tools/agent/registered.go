package agent

import (
	"context"
	"slices"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/tools"
)

// registeredAgents are the agents that have registered. The name of an agent selects that agent; a role selects any
// agent of the role.
type registeredAgents struct {
	service func() agents.Service
}

// spawn implements agentSource. Names of roles and the type for the model of the client take precedence over names of
// agents, so that an agent cannot receive their work by registering under such a name.
func (r registeredAgents) spawn(ctx context.Context, _ *tools.Env, agent string) (tools.Spawn, bool, error) {
	if agent == clientModel {
		return tools.Spawn{}, false, nil
	}
	role := slices.Contains(agents.Types(), agent)
	all, err := r.all(ctx)
	if err != nil {
		return tools.Spawn{}, false, err
	}
	for _, v := range all {
		switch {
		case agent == v.Name && !role:
			return tools.Spawn{Agent: agent, Plan: registeredPlan(agent, "agent")}, true, nil
		case agent == v.Type:
			return tools.Spawn{Agent: agent, Plan: registeredPlan(agent, "type")}, true, nil
		}
	}
	return tools.Spawn{}, false, nil
}

func (r registeredAgents) types(ctx context.Context, _ *tools.Env) []string {
	all, _ := r.all(ctx) // the list is only for a hint
	var types []string
	for _, v := range all {
		types = append(types, v.Name, v.Type)
	}
	return types
}

func (r registeredAgents) all(ctx context.Context) ([]agents.View, error) {
	if r.service == nil || r.service() == nil {
		return nil, nil
	}
	return r.service().Agents(ctx)
}

// registeredPlan returns a plan with one step, which calls AGENT_TASK. field is the input field that selects the
// registered agents, and agent its value.
func registeredPlan(agent, field string) []byte {
	type object = map[string]any
	return encode(object{
		"orch": "v1",
		"name": "agent " + agent,
		"inputs": object{
			"type": "object", "required": []string{"prompt"},
			"properties": object{"prompt": object{"type": "string"}, "model": object{"type": "string", "default": ""}},
		},
		"steps": []object{{
			"id": "agent", "tool": TaskName,
			"with": object{"title": "what a task has asked of " + agent, "description": "${{ inputs.prompt }}", "data": object{"model": "${{ inputs.model }}"}, field: agent},
		}},
		"outputs": object{"report": "${{ steps.agent.output.result ?? steps.agent.output.summary }}"},
	})
}
