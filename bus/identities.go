package bus

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// IdentitySubjects is the prefix of the subjects at which people speak for themselves, with tokens of their own:
// "orch.as.<digest of the secret>.<method>". The digest says who speaks: the embedded server lets nobody publish there but
// whoever has connected with the secret, the operator no more than others. An external server lets in whom its own permissions let in.
const IdentitySubjects = "orch.as"

// identityInbox is the prefix of the subjects at which who has a token is answered.
func identityInbox(digest string) string { return inboxes + "." + digest }

// ServeIdentities serves the commands of faces to people who have tokens of the role operator: each acts as the identity of
// the token.
func ServeIdentities(c *Conn, owner api.API, tokens *Tokens, cfg EndpointConfig) (*Endpoint, error) {
	i := identities{tokens: tokens, methods: withoutNumbers(apiMethods(owner))}
	cfg.inbox = func(m *nats.Msg) bool {
		digest, _ := parseIdentitySubject(m.Subject)
		return strings.HasPrefix(m.Reply, identityInbox(digest)+".")
	}
	return serveAt(c, IdentitySubjects+".*.*", i.find, func(*Endpoint, uint64) {}, cfg)
}

// identities is where people with tokens are served.
type identities struct {
	tokens  *Tokens
	methods map[string]method
}

// parseIdentitySubject returns the digest of the secret of who sends a request, and the method.
func parseIdentitySubject(subject string) (digest, name string) {
	digest, name, _ = strings.Cut(strings.TrimPrefix(subject, IdentitySubjects+"."), ".")
	return digest, name
}

// find returns the method of a request, for the identity that sends it.
func (i identities) find(m *nats.Msg) (method, error) {
	digest, name := parseIdentitySubject(m.Subject)
	token, err := i.tokens.byDigest(digest)
	if err == nil {
		err = token.operates()
	}
	if err != nil {
		return nil, err
	}
	do := i.methods[name]
	if do == nil {
		return nil, fault.New(fault.MethodNotFound, "there is no method %q for tokens", name)
	}
	return func(ctx context.Context, request []byte) (response, error) {
		return do(withCaller(ctx, token.identity()), request)
	}, nil
}

// identity returns who somebody is in the log who speaks with a token.
func (t Token) identity() string {
	if t.Role == RoleAgent {
		return agents.Prefix + t.Name
	}
	return "user:" + t.Name
}

// operates returns FORBIDDEN for a token that may not do everything: faces that know its bounds take it.
func (t Token) operates() error {
	if t.Role != RoleOperator || len(t.Tools) > 0 || t.ReadOnly {
		return fault.New(fault.Forbidden, "the command line takes tokens of the role operator that show all tools").
			WithHint("use this one over MCP, or make another one: orch token create NAME --role operator")
	}
	return nil
}

// byDigest returns the token of a secret by its digest in hex: UNAUTHORIZED, TOKEN_EXPIRED.
func (t *Tokens) byDigest(digest string) (Token, error) {
	t.mu.RLock()
	r := t.sums[digestIn(digest)]
	t.mu.RUnlock()
	if r == nil {
		return Token{}, unknownToken()
	}
	return r.Token, r.good(t.now())
}

// subject returns where a method is asked: for who has a token, below its digest. FORBIDDEN for what takes the credential of
// the operator.
func (c *Conn) subject(method string) (string, error) {
	secret := c.target.config.Token
	if secret == "" {
		return method, nil
	}
	name, ok := strings.CutPrefix(method, CommandPrefix+".")
	if !ok {
		return "", fault.New(fault.Forbidden, "this takes the credential of the operator, and not a token").
			WithHint("run it as the user of the node, without identity_token")
	}
	return IdentitySubjects + "." + agents.DigestOf(secret) + "." + name, nil
}
