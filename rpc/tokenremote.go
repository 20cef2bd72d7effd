package rpc

import (
	"context"

	"github.com/orch-dev/orch/bus"
)

var _ bus.TokenStore = (*Remote)(nil)

// ServeTokens serves the list of tokens below TokenPrefix. The actor of requests is cfg.Identity.
func ServeTokens(c *bus.Conn, t bus.TokenStore, cfg EndpointConfig) (*Endpoint, error) {
	return Serve(c, bus.TokenPrefix, map[string]Method{
		"create": Handle(t.CreateToken),
		"list":   Handle(func(ctx context.Context, _ struct{}) ([]bus.Token, error) { return t.ListTokens(ctx) }),
		"revoke": Handle(t.RevokeToken),
	}, cfg)
}

// CreateToken implements TokenStore.
func (r *Remote) CreateToken(ctx context.Context, in bus.NewToken) (bus.Token, error) {
	var token bus.Token
	err := Call(ctx, r.conn, bus.TokenPrefix+".create", in, &token)
	return token, err
}

// ListTokens implements TokenStore.
func (r *Remote) ListTokens(ctx context.Context) ([]bus.Token, error) {
	list := []bus.Token{}
	err := Call(ctx, r.conn, bus.TokenPrefix+".list", struct{}{}, &list)
	return list, err
}

// RevokeToken implements TokenStore.
func (r *Remote) RevokeToken(ctx context.Context, in bus.RevokeToken) (bus.Token, error) {
	var token bus.Token
	err := Call(ctx, r.conn, bus.TokenPrefix+".revoke", in, &token)
	return token, err
}
