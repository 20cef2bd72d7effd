package node

import (
	"context"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/work"
)

// roster returns the registered agents, and a function that reports whether an agent was removed. Explanations of tasks use it.
func (ag *agentDesk) roster(ctx context.Context) (all []orchestrator.RegisteredAgent, removed func(string) bool) {
	if r := ag.executor.registry.Load(); r != nil {
		views, err := r.Agents(ctx)
		if err != nil {
			return nil, ag.credentials.tokens.Revoked
		}
		for _, v := range views {
			all = append(all, registeredAgent(v))
		}
	}
	return all, ag.credentials.tokens.Revoked
}

func registeredAgent(v agents.View) orchestrator.RegisteredAgent {
	r := orchestrator.RegisteredAgent{
		Agent:  work.Agent{Name: v.Name, Type: v.Type, Capabilities: v.CapabilityNames(), For: v.For},
		Online: v.Status != agents.Offline, LastSeen: v.LastSeen, Slots: v.MaxTasks,
	}
	for _, c := range v.Calls {
		r.Calls = append(r.Calls, orchestrator.HeldCall{Ref: c.Ref, Since: c.Since, Until: c.Until})
	}
	return r
}
