package agent

import (
	"context"
	"slices"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/tools"
)

// registeredAgents are the registered agents: each is known by its name, and all agents of a role by the role.
type registeredAgents struct {
	service func() agents.Service
}

// spawn implements agentSource. An agent cannot receive work for a role or for the model of the client by registering
// under that name.
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

// registeredPlan returns the plan for registered agents that a field selects: one step.
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
