package bus

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// AgentToken returns the token of the registered agent with an id. Errors: UNAUTHORIZED if there is no such agent,
// TOKEN_EXPIRED.
func (t *Tokens) AgentToken(id string) (Token, error) {
	r, err := t.agentRecord(id)
	if err != nil {
		return Token{}, err
	}
	return r.Token, nil
}

// AgentContext is like TokenContext for the token of the registered agent with an id. If that agent is no longer registered,
// or its token has expired, it returns a cancelled context.
func (t *Tokens) AgentContext(ctx context.Context, id string) (valid context.Context, cancel context.CancelFunc) {
	r, err := t.agentRecord(id)
	if err != nil {
		valid, cancel = context.WithCancel(ctx)
		cancel()
		return valid, cancel
	}
	return r.whileValid(ctx)
}

func (t *Tokens) agentRecord(id string) (*tokenRecord, error) {
	t.mu.RLock()
	r := t.agents[id]
	t.mu.RUnlock()
	if r == nil {
		return nil, fault.New(fault.Unauthorized, "there is no registered agent with this id").WithHint("see: orch agents")
	}
	return r, r.checkExpiry(t.now())
}

// ShareOf returns the identity whose share of the worker slots a registered agent uses (Token.Share). who is the identity of the
// agent, such as agent:builder. ShareOf returns "" for an agent with a separate share, and for any identity that is not a
// registered agent. If a token has no Share, ShareOf returns the For of the agent's profile.
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

// JustRenewed reports whether the credential of an agent was renewed less than 2*RenewedWithin ago: a connection with the
// previous credential may still be open.
func (t *Tokens) JustRenewed(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r := t.agents[id]
	return r != nil && !r.renewed.IsZero() && time.Since(r.renewed) < 2*RenewedWithin
}

// notifyInvalid sets the function that is called for each token that is revoked or replaced. renewed reports whether a new
// token of the same agent replaces it.
func (t *Tokens) notifyInvalid(notify func(token Token, renewed bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onInvalid = notify
}
