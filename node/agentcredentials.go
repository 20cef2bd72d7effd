package node

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
)

// agentCredentials implements agents.Credentials: an agent is a token with a profile.
type agentCredentials struct {
	tokens *bus.Tokens
	// callable returns the tools that a task may call; an empty list means all tools.
	callable func(ctx context.Context, task events.TaskID) ([]string, error)
	// forget removes the messages that are stored for a name.
	forget func(ctx context.Context, who string) error
	// giveUp ends the leases of a removed identity.
	giveUp func(who string) error
	// owner is the identity of the user who runs the node, such as user:ada; empty if unknown.
	owner string
}

func (ag *agentDesk) agentCredentials() agentCredentials {
	r := agentCredentials{tokens: ag.credentials.tokens, callable: ag.orch.Callable, forget: ag.mailroom.messages.RemoveIdentity, giveUp: ag.orch.GiveUp}
	if ag.cfg.User != "" {
		r.owner = "user:" + ag.cfg.User
	}
	return r
}

// Enrol implements agents.Credentials. An agent that a non-operator registers works only for that identity.
func (r agentCredentials) Enrol(ctx context.Context, reg agents.Registration) (agents.Member, string, error) {
	p := reg.Profile
	all, err := r.tokens.ListTokens(ctx)
	if err != nil {
		return agents.Member{}, "", err
	}
	var share string
	if p.ID, p.For = events.NewAgentID(time.Now()), ""; !isOperator(all, reg.By) {
		p.For, share = reg.By, cmp.Or(r.tokens.ShareOf(reg.By), reg.By)
	}
	until, sponsor, err := r.validUntil(all, reg.By)
	if err != nil {
		return agents.Member{}, "", err
	}
	in := bus.NewToken{Name: reg.Name, Until: until, Sponsor: sponsor, Share: share, Role: bus.RoleAgent, Actor: cmp.Or(reg.By, "user:unknown"), Life: agents.CredentialLife, Agent: &p}
	if in.Tools, in.ReadOnly, err = r.visibleTools(ctx, reg); err != nil {
		return agents.Member{}, "", err
	}
	if err := r.clearName(ctx, all, reg); err != nil {
		return agents.Member{}, "", err
	}
	t, secret, err := bus.IssueToken(ctx, r.tokens, in)
	if fault.Has(err, fault.Conflict) {
		err = nameTaken(reg.Name)
	}
	if err != nil {
		return agents.Member{}, "", err
	}
	return memberOf(t), secret, nil
}

func nameTaken(name string) error {
	return fault.New(fault.Conflict, "there is an agent, or a token, of the name %s", name).WithField("agentInfo.name").
		WithHint("choose another name, or remove that one: orch agents remove %s", name)
}

// clearName prepares a name for a new agent. It removes the messages and ends the leases of the previous agent with that name;
// messages that were sent before the name was ever used are kept.
//
// It returns CONFLICT if the name is in use. It returns FORBIDDEN if somebody else registered the previous agent and the caller
// is not an operator, because the new agent will see the tasks of the previous one.
func (r agentCredentials) clearName(ctx context.Context, all []bus.Token, reg agents.Registration) error {
	i := slices.IndexFunc(all, func(t bus.Token) bool { return t.Name == reg.Name && t.Local == "" })
	switch {
	case i >= 0 && !all[i].Expired(time.Now()):
		return nameTaken(reg.Name)
	case i < 0 && !r.tokens.Revoked(reg.Name):
		return nil
	}
	if own := i >= 0 && all[i].Agent != nil && all[i].CreatedBy == reg.By; !own && !isOperator(all, reg.By) {
		return fault.New(fault.Forbidden, "the name %s was that of somebody else", reg.Name).WithField("agentInfo.name").
			WithHint("choose another name; an operator may register it")
	}
	if err := r.giveUp(agents.Prefix + reg.Name); err != nil {
		return err
	}
	return r.forget(ctx, agents.Prefix+reg.Name)
}

// validUntil returns the time until which the agents of an identity may act: the latest expiry of its tokens, or zero if one of
// its tokens does not expire. sponsor is the identity; it is empty for an identity that never had a token, such as a person at
// the command line. If all tokens of the identity have expired, validUntil returns FORBIDDEN.
func (r agentCredentials) validUntil(all []bus.Token, who string) (until time.Time, sponsor string, err error) {
	known, good := false, false
	for _, t := range all {
		if identityOf(t).Name != who {
			continue
		}
		known = true
		switch {
		case t.Expired(time.Now()):
		case t.ExpiresAt.IsZero():
			return time.Time{}, who, nil
		default:
			until, good = latest(until, t.ExpiresAt), true
		}
	}
	_, name, _ := strings.Cut(who, ":")
	if !known && (who == r.owner || r.owner == "" || !r.tokens.Revoked(name)) {
		return time.Time{}, "", nil
	}
	if !good {
		return time.Time{}, "", fault.New(fault.Forbidden, "%s has no token any more", who).WithHint("agents end with the tokens of who has registered them; see: orch token list")
	}
	return until, who, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// isOperator reports whether an identity is an operator. A user without any token is one, because people at the command line
// use the operator's credential of the bus.
func isOperator(all []bus.Token, who string) bool {
	known := strings.HasPrefix(who, agents.Prefix)
	for _, t := range all {
		if identityOf(t).Name != who {
			continue
		}
		if t.Role == bus.RoleOperator {
			return true
		}
		known = true
	}
	return !known
}

// visibleTools returns the tools that a new agent sees: those of the token that registers it. If that token has no restriction,
// or has expired since, it returns the tools that the registering task may call; an MCP client may see fewer tools than its
// token permits, and the task records which.
func (r agentCredentials) visibleTools(ctx context.Context, reg agents.Registration) (shown []string, readOnly bool, err error) {
	all, err := r.tokens.ListTokens(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, t := range all {
		if identityOf(t).Name == reg.By && (len(t.Tools) > 0 || t.ReadOnly) {
			shown, readOnly = t.Tools, t.ReadOnly
		}
	}
	if len(shown) > 0 || readOnly {
		return shown, readOnly, nil
	}
	shown, err = r.callable(ctx, reg.Task)
	if fault.Has(err, fault.NotFound) { // the registration did not come from a task
		err = nil
	}
	return shown, false, err
}

// renew replaces the credential of an agent. It is idempotent if the agent chose the new secret, because the first answer may
// have been lost.
func (r agentCredentials) renew(ctx context.Context, m agents.Member, in agents.Renewal) (httpapi.Credential, error) {
	all, err := r.tokens.ListTokens(ctx)
	if err != nil {
		return httpapi.Credential{}, err
	}
	i := slices.IndexFunc(all, func(t bus.Token) bool { return t.ID == m.Key })
	if i < 0 {
		return httpapi.Credential{}, fault.New(fault.Unauthorized, "the credential was revoked")
	}
	old := all[i]
	if in.Digest != "" && r.tokens.HasDigest(old.ID, in.Digest) {
		return httpapi.Credential{Key: old.ID, ExpiresAt: old.ExpiresAt}, nil
	}
	until, err := r.renewable(all, old)
	if err != nil {
		return httpapi.Credential{}, err
	}
	return r.replace(ctx, bus.NewToken{
		Name: old.Name, Role: old.Role, Actor: old.CreatedBy, Life: agents.CredentialLife, Tools: old.Tools, ReadOnly: old.ReadOnly,
		Agent: old.Agent, Replaces: old.ID, SHA256: in.Digest, Until: until, Sponsor: old.Sponsor, Share: old.Share,
	})
}

// renewable returns the time until which the next credential of an agent may be valid, zero for no limit. It returns FORBIDDEN
// if the identity that registered the agent no longer has a valid token.
func (r agentCredentials) renewable(all []bus.Token, old bus.Token) (time.Time, error) {
	if old.Sponsor == "" {
		return time.Time{}, nil
	}
	until, sponsor, err := r.validUntil(all, old.Sponsor)
	if err == nil && sponsor == "" {
		err = fault.New(fault.Forbidden, "%s, who has registered the agent, has no token any more", old.Sponsor).WithHint("register the agent again")
	}
	return until, err
}

// replace creates a credential that replaces in.Replaces. If in.SHA256 is set, the agent chose the secret; otherwise replace
// returns a new secret.
func (r agentCredentials) replace(ctx context.Context, in bus.NewToken) (httpapi.Credential, error) {
	var t bus.Token
	var secret string
	var err error
	if in.SHA256 == "" {
		t, secret, err = bus.IssueToken(ctx, r.tokens, in)
	} else {
		t, err = r.tokens.CreateToken(ctx, in)
	}
	if fault.Has(err, fault.ValidationError) && fault.From(err).Field == "sha256" {
		err = fault.From(err).WithField("digest")
	}
	return httpapi.Credential{Key: t.ID, Secret: secret, ExpiresAt: t.ExpiresAt}, err
}

// Members implements agents.Credentials.
func (r agentCredentials) Members(ctx context.Context) ([]agents.Member, error) {
	all, err := r.tokens.ListTokens(ctx)
	if err != nil {
		return nil, err
	}
	var members []agents.Member
	for _, t := range all {
		if t.Agent != nil {
			members = append(members, memberOf(t))
		}
	}
	return members, nil
}

// Revoke implements agents.Credentials.
func (r agentCredentials) Revoke(ctx context.Context, m agents.Member, by string) error {
	const attempts = 100 // the agent may renew its credential between two attempts
	key, err := m.Key, error(nil)
	for range attempts {
		_, err = r.tokens.RevokeToken(ctx, bus.RevokeToken{Token: key, Actor: by})
		if !fault.Has(err, fault.Conflict) && !fault.Has(err, fault.NotFound) {
			break
		}
		t, missing := r.tokens.AgentToken(m.ID)
		if missing != nil {
			break
		}
		key = t.ID
	}
	if err != nil {
		return err
	}
	return r.giveUp(m.Actor())
}

// memberOf returns the agent of a token.
func memberOf(t bus.Token) agents.Member {
	registered := events.TimeOfAgent(t.Agent.ID) // renewed tokens are newer than the registration
	if registered.IsZero() {
		registered = t.CreatedAt
	}
	return agents.Member{
		Profile: *t.Agent, Name: t.Name, Key: t.ID, RegisteredAt: registered, RegisteredBy: t.CreatedBy, ExpiresAt: t.ExpiresAt,
	}
}
