package node

import (
	"context"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/tools/agent"
)

// serveAgentDispatcher serves agents over plain NATS, on a separate connection.
func (ag *agentDesk) serveAgentDispatcher(ctx context.Context) error {
	c, err := ag.connect(ctx, "dispatcher of agents")
	if err != nil {
		return err
	}
	end, err := rpc.ServeAgentDispatcher(c, rpc.AgentsConfig{
		Dispatcher: ag.agentDispatcher, Member: ag.member, While: ag.credentials.tokens.AgentContext, Status: httpapi.Status, Logger: ag.cfg.logger(),
		Renew: rpc.HandleAgent(ag.renewOverNATS), Admit: ag.admit,
	})
	if err != nil {
		return err
	}
	ag.onStop(closeSoon(end))
	ag.executor.dispatcher.Store(&agentDispatcher{ag.agentDispatcher, ag})
	if ag.server != nil {
		ag.server.AdmitAgents(ag.credentials.tokens)
	}
	return nil
}

// renewOverNATS replaces the credential of an agent. The subject of a request identifies the agent, but not the credential of
// the connection. So renewOverNATS returns RATE_LIMITED just after a renewal: the connection may still use the previous
// credential, which must not renew its successor.
//
// On an external NATS server it returns FORBIDDEN. Such a server does not check credentials of agents, so anybody who may
// publish on the subject of an agent could obtain a credential for MCP and HTTP.
func (ag *agentDesk) renewOverNATS(ctx context.Context, m agents.Member, in agents.Renewal) (httpapi.Credential, error) {
	if ag.server == nil {
		return httpapi.Credential{}, fault.New(fault.Forbidden, "no credential is renewed over an external NATS server").
			WithHint("POST %s over HTTP, with the credential as bearer token", agents.CredentialPath)
	}
	if err := in.Check(); err != nil {
		return httpapi.Credential{}, err
	}
	if ag.credentials.tokens.JustRenewed(m.ID) && !ag.credentials.tokens.HasDigest(m.Key, in.Digest) {
		return httpapi.Credential{}, fault.New(fault.RateLimited, "the credential has just been renewed").
			WithRetryAt(time.Now().Add(2 * bus.RenewedWithin)).WithHint("connect with the new one")
	}
	return ag.agentCredentials().renew(ctx, m, in)
}

// admit counts a request against the rate limits of the MCP endpoint, if the node has one. leave ends the request.
func (ag *agentDesk) admit(who string, size int64) (leave func(), err error) {
	if face := ag.meter.Load(); face != nil {
		return face.Admit(who, size)
	}
	return func() {}, nil
}

// agentDispatcher is the dispatcher for agents that use the tools of the node.
type agentDispatcher struct {
	*agents.Dispatcher

	n *agentDesk
}

var _ agent.Dispatcher = (*agentDispatcher)(nil)

// Member implements agent.Dispatcher.
func (d *agentDispatcher) Member(ctx context.Context, id string) (agents.Member, error) {
	return d.n.member(ctx, id)
}

// Claim implements agent.Dispatcher. An agent that is removed while it waits is assigned no call.
func (d *agentDispatcher) Claim(ctx context.Context, m agents.Member, c agents.Claim) (agents.Work, error) {
	ctx, cancel := d.n.credentials.tokens.AgentContext(ctx, m.ID)
	defer cancel()
	return d.Dispatcher.Claim(ctx, m, c)
}

// agentDispatcher returns the dispatcher for agents; nil in the process of a worker, and before the node accepts tasks.
func (h *executor) agentDispatcher() agent.Dispatcher {
	if d := h.dispatcher.Load(); d != nil {
		return d
	}
	return nil
}

// member returns the registered agent with an id. It fails if the agent has no valid credential.
func (ag *agentDesk) member(_ context.Context, id string) (agents.Member, error) {
	t, err := ag.credentials.tokens.AgentToken(id)
	if err != nil {
		return agents.Member{}, err
	}
	return memberOf(t), nil
}
