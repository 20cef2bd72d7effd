package node

import (
	"context"
	"net/http"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/mcp/server"
)

// toolListAgents is the tool that a token must include to see the cards of agents.
const toolListAgents = "system.getAgents"

// cards serves the agent cards of the node and of its agents.
func (ag *agentDesk) cards(face *server.Server) http.Handler {
	return face.CheckOrigin(httpapi.Cards(httpapi.CardsConfig{
		Node: agents.NodeCard(ag.address(), ag.cfg.Version), Logger: ag.cfg.logger(),
		Agent: func(ctx context.Context, secret, name string) (agents.Card, error) {
			return ag.agentCard(ctx, face, secret, name)
		},
	}))
}

// agentCard returns the card of an agent if the owner of a token may list agents.
func (ag *agentDesk) agentCard(ctx context.Context, face *server.Server, secret, name string) (agents.Card, error) {
	who, err := face.ToolCaller(ctx, secret)
	if err != nil {
		return agents.Card{}, err
	}
	leave, err := who.Admit(0)
	if err != nil {
		return agents.Card{}, err
	}
	defer leave()
	if !who.Sees(toolListAgents) {
		return agents.Card{}, fault.New(fault.Forbidden, "%s sees no agents", who.Name()).WithHint("its token leaves out the tool %s", toolListAgents)
	}
	all, err := ag.agentCredentials().Members(ctx)
	if err != nil {
		return agents.Card{}, err
	}
	for _, m := range all {
		if m.Name == name {
			return agents.AgentCard(m, ag.address()), nil
		}
	}
	return agents.Card{}, fault.New(fault.NotFound, "there is no agent of that name").WithField("name").WithHint("see: orch agents")
}
