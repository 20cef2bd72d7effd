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

// Login lets a person log in to a server that requires it; show gets the address to open in a browser. It also works before
// Init, and starts no server; a registry that watches files connects with the new login at once. Errors: ErrToolNotFound,
// VALIDATION_ERROR for a server that needs no login, and those of oauth.Logins.
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

// Logout deletes the login of a server, even if its definition is gone, and reports whether the authorization server has
// revoked it. NOT_FOUND without a login.
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

// loginServer returns the properties of a definition that a login needs.
func loginServer(e expandedConfig) oauth.Server {
	s := oauth.Server{Name: e.Name, URL: e.BaseURL, Headers: headersOf(e.MCPConfig)}
	if e.OAuth != nil {
		s.ClientID, s.ClientSecret, s.Issuer, s.Scopes = e.OAuth.ClientID, e.OAuth.ClientSecret, e.OAuth.Issuer, e.OAuth.Scopes
	}
	return s
}

// withLogin lets a server without a token in its definition use the token of a login, and hides that in texts.
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

// withLoginDigest includes the login in the digest of a definition, so that another login is applied like a changed definition.
func (r *Registry) withLoginDigest(def definition) definition {
	if def.Transport == TransportHTTP {
		def.digest += r.logins.ID(def.Name)
	}
	return def
}

// tokenTransport sends the token of a login with requests to its server, and retries with a renewed one if the server refuses it.
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
	_ = resp.Body.Close() // the body of a refusal
	if token, err = b.source.Renew(req.Context(), token); err != nil {
		return nil, b.fail(req, err)
	}
	again := authorized(req, token)
	if req.GetBody != nil { // requests of the SDK with a body have it
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	resp, err = b.base.RoundTrip(again)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		_ = resp.Body.Close() // the body of a refusal
		return nil, b.fail(req, b.source.Refused())
	}
	return resp, err
}

// fail ends a request that cannot be sent.
func (b *tokenTransport) fail(req *http.Request, err error) error {
	if req.Body != nil {
		_ = req.Body.Close() // it may have been read already
	}
	b.onLoginRequired(err)
	return err
}

// authorized returns a request with a token, if there is one.
func authorized(req *http.Request, token string) *http.Request {
	if token == "" {
		return req
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return req
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }
