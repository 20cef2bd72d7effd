package bus

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// AgentToken returns the token of a registered agent, by the id of the agent. Errors: UNAUTHORIZED if there is none,
// TOKEN_EXPIRED.
func (t *Tokens) AgentToken(id string) (Token, error) {
	r, err := t.agentRecord(id)
	if err != nil {
		return Token{}, err
	}
	return r.Token, nil
}

// AgentContext is TokenContext for the token of a registered agent, by the id of the agent. If the agent is no longer
// registered, the context has ended.
func (t *Tokens) AgentContext(ctx context.Context, id string) (while context.Context, cancel context.CancelFunc) {
	r, err := t.agentRecord(id)
	if err != nil {
		while, cancel = context.WithCancel(ctx)
		cancel()
		return while, cancel
	}
	return r.while(ctx)
}

func (t *Tokens) agentRecord(id string) (*tokenRecord, error) {
	t.mu.RLock()
	r := t.agents[id]
	t.mu.RUnlock()
	if r == nil {
		return nil, fault.New(fault.Unauthorized, "there is no registered agent of this id").WithHint("see: orch agents")
	}
	return r, r.checkExpiry(t.now())
}

// ShareOf returns the identity whose share the registered agent with the identity who, such as agent:builder, counts against. It returns ""
// if the agent has a share of its own, and for any other identity. The share is set when the agent is registered. Agents registered
// by non-operators before there were shares count against their sponsors.
func (t *Tokens) ShareOf(who string) string {
	name, ok := strings.CutPrefix(who, agents.Prefix)
	if !ok {
		return ""
	}
	key := (&NewToken{Name: name}).key()
	t.mu.RLock()
	defer t.mu.RUnlock()
	r := t.keys[key].record
	if r == nil || r.Agent == nil {
		return ""
	}
	return cmp.Or(r.Share, r.Agent.For)
}

// JustRenewed reports whether the credential of an agent was renewed within RenewedWithin, so that a connection with the
// previous one may still be open.
func (t *Tokens) JustRenewed(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r := t.agents[id]
	return r != nil && !r.renewed.IsZero() && time.Since(r.renewed) < 2*RenewedWithin
}

// notifyInvalid sets the function to call for each token that becomes invalid; renewed reports whether a new token of the same agent replaces it.
func (t *Tokens) notifyInvalid(notify func(token Token, renewed bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onInvalid = notify
}
