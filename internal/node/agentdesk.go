package node

import (
	"context"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/httpapi"
)

// serveAgentDesk lets agents speak over plain NATS, on a connection that nothing else waits for.
func (n *Node) serveAgentDesk(ctx context.Context) error {
	c, err := n.connect(ctx, "desk of agents")
	if err != nil {
		return err
	}
	end, err := bus.ServeAgentDesk(c, bus.AgentsConfig{
		Desk: n.agentDesk, Member: n.member, While: n.tokens.WhileAgent, Status: httpapi.Status, Logger: n.cfg.logger(),
		Renew: bus.HandleAgent(func(ctx context.Context, m agents.Member, _ struct{}) (httpapi.Credential, error) {
			return roll{tokens: n.tokens}.renew(ctx, m)
		}),
	})
	if err != nil {
		return err
	}
	n.onStop(closeSoon(end))
	if n.server != nil {
		n.server.AdmitAgents(n.tokens)
	}
	return nil
}

// member returns the registered agent of an id, as long as its credential is good.
func (n *Node) member(_ context.Context, id string) (agents.Member, error) {
	t, err := n.tokens.AgentToken(id)
	if err != nil {
		return agents.Member{}, err
	}
	return memberOf(t), nil
}
