package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/orch-dev/orch/fault"
)

// loginRequest is one login of a person.
type loginRequest struct {
	issuer issuer
	client client
	scopes []string
	// redirect is the URL for the answer; state and verifier bind the answer to the request.
	redirect, state, verifier string
}

// Login lets a person log in. It calls show with the address to open in a browser, which is https, or http on a loopback address.
// It waits for the answer and stores the tokens. It returns NOT_FOUND if the server requires no login, FORBIDDEN if a server cannot
// be trusted or refuses the login, TIMEOUT, TOOL_UNAVAILABLE or VALIDATION_ERROR.
func (l *Logins) Login(ctx context.Context, s Server, show func(address string)) (Login, error) {
	if err := s.check(); err != nil {
		return Login{}, err
	}
	from, err := l.discover(ctx, s)
	if err != nil {
		return Login{}, err
	}
	back, err := listen(ctx)
	if err != nil {
		return Login{}, err
	}
	defer back.close(ctx)
	q := loginRequest{
		issuer: from, scopes: scopesOf(s, from), redirect: back.redirect,
		state: rand.Text(), verifier: rand.Text() + rand.Text(),
	}
	if q.client, err = l.register(ctx, s, q); err != nil {
		return Login{}, err
	}
	address, err := q.address()
	if err != nil {
		return Login{}, err
	}
	show(address)
	answer, err := back.await(ctx, l.wait)
	if err != nil {
		return Login{}, err
	}
	code, err := q.code(answer)
	if err != nil {
		return Login{}, err
	}
	return l.redeem(ctx, s, q, code)
}

// scopesOf returns the scopes to request: the scopes of the definition, otherwise those that the server requires, and
// offline_access if it is supported. Many authorization servers issue a refresh token only with offline_access.
func scopesOf(s Server, from issuer) []string {
	if len(s.Scopes) > 0 {
		return slices.Clone(s.Scopes)
	}
	const offline, maxScopes = "offline_access", 100
	scopes := slices.Clone(from.scopes[:min(len(from.scopes), maxScopes)])
	if slices.Contains(from.ScopesSupported, offline) && !slices.Contains(scopes, offline) {
		scopes = append(scopes, offline)
	}
	return scopes
}

// register returns the client of the definition. If the definition has none, it registers a client at the authorization server.
func (l *Logins) register(ctx context.Context, s Server, q loginRequest) (client, error) {
	if s.ClientID != "" {
		return client{ID: s.ClientID, Secret: s.ClientSecret, Auth: authOf(s.ClientSecret, q.issuer.TokenEndpointAuthMethodsSupported), Preset: true}, nil
	}
	if q.issuer.RegistrationEndpoint == "" {
		return client{}, fault.New(fault.RequiredField, "the authorization server takes registered clients alone").WithField("oauth.clientId").
			WithHint("register orch at %s, and put the client id into oauth of the definition", clip(q.issuer.Issuer))
	}
	registered, err := oauthex.RegisterClient(ctx, q.issuer.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		ClientName: "orch", ApplicationType: "native", RedirectURIs: []string{q.redirect},
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		TokenEndpointAuthMethod: authNone, Scope: strings.Join(q.scopes, " "),
	}, l.http)
	if err != nil {
		return client{}, registrationError(ctx, err)
	}
	if !sendable(registered.ClientID) || registered.ClientSecret != "" && !sendable(registered.ClientSecret) {
		return client{}, fault.New(fault.Forbidden, "the authorization server gives a client id that cannot be sent").WithField("client_id")
	}
	c := client{ID: registered.ClientID, Secret: registered.ClientSecret, Auth: registered.TokenEndpointAuthMethod}
	if c.Secret == "" || c.Auth != authPost && c.Auth != authNone {
		c.Auth = authOf(c.Secret, []string{c.Auth})
	}
	return c, nil
}

// registrationError returns the error for a failed registration. It does not include the text of err, which may quote the answer and
// so contain a secret.
func registrationError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	if refused, ok := errors.AsType[*oauthex.ClientRegistrationError](err); ok {
		return fault.New(fault.Forbidden, "the authorization server does not accept orch as a client: %s", errorCode(refused.ErrorCode, "no reason is given"))
	}
	return fault.New(fault.ToolUnavailable, "the authorization server does not accept orch as a client").WithField("registration_endpoint")
}

// authOf returns the authentication method of a client with the given secret.
func authOf(secret string, supported []string) string {
	switch {
	case secret == "":
		return authNone
	case slices.Contains(supported, authPost) && !slices.Contains(supported, authBasic):
		return authPost
	default:
		return authBasic
	}
}

// address returns the URL at which a person logs in.
func (q loginRequest) address() (string, error) {
	u, err := url.Parse(q.issuer.AuthorizationEndpoint)
	if err != nil {
		return "", fault.New(fault.Forbidden, "it is not a valid address").WithField("authorization_endpoint")
	}
	challenge := sha256.Sum256([]byte(q.verifier))
	query := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": q.client.ID, "redirect_uri": q.redirect, "state": q.state, "resource": q.issuer.resource,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		query.Set(name, value)
	}
	if len(q.scopes) > 0 {
		query.Set("scope", strings.Join(q.scopes, " "))
	}
	u.RawQuery = query.Encode()
	const longest = 16 << 10
	if len(u.RawQuery) > longest {
		return "", fault.New(fault.Forbidden, "the address to log in at has more than 16 KiB").WithField("scopes_supported")
	}
	return u.String(), nil
}

// code returns the code in an answer to the request. It returns FORBIDDEN for an invalid answer, and for a refusal.
func (q loginRequest) code(answer url.Values) (string, error) {
	iss, announced := answer.Get("iss"), q.issuer.AuthorizationResponseIssParameterSupported
	switch {
	case subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(q.state)) != 1:
		return "", fault.New(fault.Forbidden, "the browser brought the answer to another question").WithField("state").
			WithHint("log in once more, in the window that this command opens")
	case iss == "" && announced, iss != "" && iss != q.issuer.Issuer:
		return "", fault.New(fault.Forbidden, "the answer is not of %q: %q", clip(q.issuer.Issuer), clip(iss)).WithField("iss")
	case answer.Get("error") != "":
		return "", fault.New(fault.Forbidden, "the authorization server refuses: %s", errorCode(answer.Get("error"), "no reason is given"))
	case answer.Get("code") == "":
		return "", fault.New(fault.Forbidden, "the browser brought no code").WithField("code")
	}
	return answer.Get("code"), nil
}

// redeem exchanges a code for tokens, and stores them.
func (l *Logins) redeem(ctx context.Context, s Server, q loginRequest, code string) (Login, error) {
	answer, err := l.post(ctx, q.issuer.TokenEndpoint, q.client, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {q.redirect},
		"code_verifier": {q.verifier}, "resource": {q.issuer.resource},
	})
	if refused, ok := errors.AsType[*refusal](err); ok {
		return Login{}, fault.Wrap(fault.Forbidden, refused, refused.Error())
	}
	if err != nil {
		return Login{}, err
	}
	g := grant{
		ID: rand.Text(), URL: s.URL, Resource: q.issuer.resource, Issuer: q.issuer.Issuer, TokenURL: q.issuer.TokenEndpoint,
		RevokeURL: q.issuer.RevocationEndpoint, Client: q.client, Scopes: q.scopes,
	}
	if g.Scopes == nil {
		g.Scopes = []string{}
	}
	if g.Client.Preset {
		g.Client.Secret = ""
	}
	if err := g.update(answer, l.now()); err != nil {
		return Login{}, err
	}
	unlock, err := l.files.lock(ctx, s.Name)
	if err != nil {
		return Login{}, err
	}
	defer unlock()
	if err := l.files.write(s.Name, g); err != nil {
		return Login{}, err
	}
	l.log.InfoContext(ctx, "mcp_logged_in", slog.String("server", s.Name), slog.String("issuer", g.Issuer))
	return g.login(s.Name), nil
}
