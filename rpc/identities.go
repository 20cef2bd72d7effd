package rpc

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

// ServeIdentities serves the API to clients with a token of the role operator. A client acts as the identity of its token.
func ServeIdentities(c *bus.Conn, owner api.API, tokens *bus.Tokens, cfg EndpointConfig) (*Endpoint, error) {
	i := identities{tokens: tokens, methods: withoutNumbers(apiMethods(owner))}
	cfg.inbox = func(m *nats.Msg) bool {
		digest, _ := parseIdentitySubject(m.Subject)
		return strings.HasPrefix(m.Reply, bus.IdentityInbox(digest)+".")
	}
	return serveAt(c, bus.IdentitySubjects+".*.*", i.find, func(*Endpoint, uint64) {}, cfg)
}

// identities serves clients with tokens.
type identities struct {
	tokens  *bus.Tokens
	methods map[string]method
}

// parseIdentitySubject returns the digest of the sender's secret and the name of the method, both parts of the subject.
func parseIdentitySubject(subject string) (digest, name string) {
	digest, name, _ = strings.Cut(strings.TrimPrefix(subject, bus.IdentitySubjects+"."), ".")
	return digest, name
}

// find returns the method of a request. The method runs with the identity of the sender's token as the caller.
func (i identities) find(m *nats.Msg) (method, error) {
	digest, name := parseIdentitySubject(m.Subject)
	who, id, err := i.tokens.Operator(digest)
	if err != nil {
		return nil, err
	}
	do := i.methods[name]
	if do == nil {
		return nil, fault.New(fault.MethodNotFound, "there is no method %q for tokens", name)
	}
	return func(ctx context.Context, request []byte) (response, error) {
		return do(withOrigin(ctx, who, id), request)
	}, nil
}

// subjectOf returns the subject of a method. For a client with a token, the subject contains the digest of the token's secret;
// for methods that need the operator's credential, subjectOf then returns FORBIDDEN.
func subjectOf(c *bus.Conn, method string) (string, error) {
	secret := c.Token()
	if secret == "" {
		return method, nil
	}
	name, ok := strings.CutPrefix(method, bus.CommandPrefix+".")
	if !ok {
		return "", fault.New(fault.Forbidden, "this takes the credential of the operator, and not a token").
			WithHint("run it as the user of the node, without identity_token")
	}
	return bus.IdentitySubjects + "." + agents.DigestOf(secret) + "." + name, nil
}
