package node

import (
	"context"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/httpapi/rest"
)

// restAgentsMost limits the agents in one answer.
const restAgentsMost = 1000

// restAgents implements rest.AgentService.
type restAgents struct {
	agents agents.Service
	// waiting returns the number of pending messages of an identity.
	waiting func(who string) int
	redact  func(string) string
}

var _ rest.AgentService = restAgents{}

// Agents implements rest.AgentService.
func (a restAgents) Agents(ctx context.Context, _ rest.AgentsRequest) (rest.AgentsReply, error) {
	all, err := a.agents.Agents(ctx)
	if err != nil {
		return rest.AgentsReply{}, err
	}
	reply := rest.AgentsReply{Agents: []rest.AgentView{}, Omitted: max(0, len(all)-restAgentsMost)}
	for _, v := range all[:min(len(all), restAgentsMost)] {
		reply.Agents = append(reply.Agents, a.view(v))
	}
	return reply, nil
}

func (a restAgents) view(v agents.View) rest.AgentView {
	out := rest.AgentView{
		ID: v.ID, Name: v.Name, Type: v.Type, Version: v.Version, Description: a.redact(v.Description), Capabilities: v.CapabilityNames(),
		Status: string(v.Status), Problem: a.redact(v.Problem), LastSeen: v.LastSeen, Uptime: v.Uptime, Calls: []rest.AgentCall{}, MaxTasks: v.MaxTasks,
		Messages: a.waiting(v.Actor()), Completed: v.Record.Completed, Failed: v.Record.Failed, Streak: v.Record.Streak, Busy: v.Record.Busy,
		For: v.For, RegisteredBy: v.RegisteredBy, RegisteredAt: v.RegisteredAt, ExpiresAt: v.ExpiresAt,
	}
	for _, c := range v.Calls {
		out.Calls = append(out.Calls, rest.AgentCall{Task: c.Task, Step: c.Step, Since: c.Since, Until: c.Until, Ending: c.Ending})
	}
	return out
}
