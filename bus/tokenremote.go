package bus

import "context"

// TokenPrefix is the prefix of the requests about tokens. Only the credential of the operator may send them.
const TokenPrefix = "orch.token"

var (
	_ TokenStore = (*Tokens)(nil)
	_ TokenStore = (*Remote)(nil)
)

// ServeTokens serves the list of tokens below TokenPrefix. Who makes and revokes them is cfg.Identity.
func ServeTokens(c *Conn, t *Tokens, cfg EndpointConfig) (*Endpoint, error) {
	return Serve(c, TokenPrefix, map[string]Method{
		"create": Handle(t.CreateToken),
		"list":   Handle(func(ctx context.Context, _ struct{}) ([]Token, error) { return t.ListTokens(ctx) }),
		"revoke": Handle(t.RevokeToken),
	}, cfg)
}

// CreateToken implements TokenStore.
func (r *Remote) CreateToken(ctx context.Context, in NewToken) (Token, error) {
	var token Token
	err := Call(ctx, r.conn, TokenPrefix+".create", in, &token)
	return token, err
}

// ListTokens implements TokenStore.
func (r *Remote) ListTokens(ctx context.Context) ([]Token, error) {
	list := []Token{}
	err := Call(ctx, r.conn, TokenPrefix+".list", struct{}{}, &list)
	return list, err
}

// RevokeToken implements TokenStore.
func (r *Remote) RevokeToken(ctx context.Context, in RevokeToken) (Token, error) {
	var token Token
	err := Call(ctx, r.conn, TokenPrefix+".revoke", in, &token)
	return token, err
}
