package bus

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// AgentToken returns the token of a registered agent, by the id of the agent. UNAUTHORIZED when there is none,
// TOKEN_EXPIRED.
func (t *Tokens) AgentToken(id string) (Token, error) {
	r, err := t.agentRecord(id)
	if err != nil {
		return Token{}, err
	}
	return r.Token, nil
}

// WhileAgent is While for the token of a registered agent, by the id of the agent. The context of one that is no agent any
// more has ended.
func (t *Tokens) WhileAgent(ctx context.Context, id string) (while context.Context, cancel context.CancelFunc) {
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

// ShareOf returns the identity in whose share a registered agent counts that has the name of an identity, such as agent:builder; "" for its
// own, and for anybody else. It was resolved when the agent was registered; before there were shares, an agent that was registered by
// somebody else than an operator worked for nobody else.
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

// JustRenewed reports whether the credential of an agent was renewed so lately that a connection of the one before may be
// there.
func (t *Tokens) JustRenewed(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r := t.agents[id]
	return r != nil && !r.renewed.IsZero() && time.Since(r.renewed) < 2*RenewedWithin
}

// notifyInvalid lets tell hear of each token that is good no longer, and whether another one of the same agent is in its place.
func (t *Tokens) notifyInvalid(notify func(token Token, renewed bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onInvalid = notify
}
