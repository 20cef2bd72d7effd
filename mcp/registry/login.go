package registry

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/oauth"
)

// loginDir returns the directory of a user's logins.
func loginDir(home string) string { return filepath.Join(home, ".orch", "state", "mcp-oauth") }

// Login lets a person log in to a server. show is called with the address to open in a browser. Login also works before Init, and
// does not connect the server: a registry that watches files connects it when the login is stored. Login returns ErrToolNotFound,
// VALIDATION_ERROR for a server that cannot use a login, and the errors of oauth.Logins.
func (r *Registry) Login(ctx context.Context, name string, show func(address string)) (oauth.Login, error) {
	def, ok, err := r.defined(name)
	if err != nil {
		return oauth.Login{}, err
	}
	if !ok {
		return oauth.Login{}, notFound(name)
	}
	e, err := expand(def.MCPConfig, r.variable)
	switch {
	case err != nil:
		return oauth.Login{}, err
	case e.Transport != TransportHTTP:
		return oauth.Login{}, fault.New(fault.ValidationError, "is a process; only a URL can demand a login").WithField(name)
	case headersOf(e.MCPConfig).Get("Authorization") != "":
		return oauth.Login{}, fault.New(fault.ValidationError, "has a token in its definition, which counts more than a login").WithField(name).
			WithHint("take bearer, or the header Authorization, out of %s", def.source)
	}
	login, err := r.logins.Login(ctx, loginServer(e), show)
	if err != nil {
		coded := *fault.From(err)
		coded.Message = e.conceal(coded.Message) // addresses may contain secrets of the definition
		return oauth.Login{}, &coded
	}
	return login, nil
}

// Logout deletes the login of a server, even if the definition of the server was removed. It reports whether the authorization
// server has revoked the tokens. It returns NOT_FOUND if there is no login.
func (r *Registry) Logout(ctx context.Context, name string) (revoked bool, err error) {
	s := oauth.Server{Name: name}
	if def, ok, err := r.defined(name); err == nil && ok {
		if e, err := expand(def.MCPConfig, r.variable); err == nil {
			s = loginServer(e)
		}
	}
	return r.logins.Logout(ctx, s)
}

// defined reads a definition from its file.
func (r *Registry) defined(name string) (definition, bool, error) {
	c, err := newChecker(r.schema)
	if err != nil {
		return definition{}, false, err
	}
	dirs, err := Directories(r.dir, r.home, r.getenv)
	if err != nil {
		return definition{}, false, err
	}
	def, ok := c.scan(dirs, r.log).servers[name]
	return def, ok, nil
}

// loginServer returns those properties of a definition that package oauth needs.
func loginServer(e expandedConfig) oauth.Server {
	s := oauth.Server{Name: e.Name, URL: e.BaseURL, Headers: headersOf(e.MCPConfig)}
	if e.OAuth != nil {
		s.ClientID, s.ClientSecret, s.Issuer, s.Scopes = e.OAuth.ClientID, e.OAuth.ClientSecret, e.OAuth.Issuer, e.OAuth.Scopes
	}
	return s
}

// withLogin sets e.login for a URL without a token in its definition, and makes e.conceal and e.guard hide the tokens of the login.
func (r *Registry) withLogin(e expandedConfig) expandedConfig {
	if e.Transport != TransportHTTP || headersOf(e.MCPConfig).Get("Authorization") != "" {
		return e
	}
	e.login = r.logins.Source(loginServer(e))
	conceal, guard := e.conceal, e.guard
	e.conceal = func(text string) string { return e.login.Conceal(conceal(text)) }
	e.guard = func(text string) string { return e.login.Conceal(guard(text)) }
	return e
}

// withLoginDigest includes the login in the digest of a definition, so that a new login is applied like a changed definition.
func (r *Registry) withLoginDigest(def definition) definition {
	if def.Transport == TransportHTTP {
		def.digest += r.logins.ID(def.Name)
	}
	return def
}

// tokenTransport adds the token of a login to requests to origin. If the server refuses the token, it retries with a renewed token.
type tokenTransport struct {
	base   http.RoundTripper
	source *oauth.Source
	origin *url.URL
	// onLoginRequired is called if a person must log in.
	onLoginRequired func(error)
}

// RoundTrip implements http.RoundTripper. The error matches oauth.ErrLogin if a person must log in.
func (b *tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !sameOrigin(req.URL, b.origin) {
		return b.base.RoundTrip(req)
	}
	token, err := b.source.Token(req.Context())
	if err != nil {
		return nil, b.fail(req, err)
	}
	resp, err := b.base.RoundTrip(authorized(req, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	_ = resp.Body.Close() // it is not needed
	if token, err = b.source.Renew(req.Context(), token); err != nil {
		return nil, b.fail(req, err)
	}
	again := authorized(req, token)
	if req.GetBody != nil { // set by aliasTransport for requests with a body
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	resp, err = b.base.RoundTrip(again)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		_ = resp.Body.Close() // it is not needed
		return nil, b.fail(req, b.source.Refused())
	}
	return resp, err
}

// fail closes the body of a request that cannot be sent, reports err to onLoginRequired, and returns it.
func (b *tokenTransport) fail(req *http.Request, err error) error {
	if req.Body != nil {
		_ = req.Body.Close() // it may have been read already
	}
	b.onLoginRequired(err)
	return err
}

// authorized returns a copy of a request with a token; the request itself if token is empty.
func authorized(req *http.Request, token string) *http.Request {
	if token == "" {
		return req
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return req
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }
