package oauth

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/orch-dev/orch/fault"
)

// issuer is the authorization server of an MCP server.
type issuer struct {
	*oauthex.AuthServerMeta

	// resource is the resource identifier of the MCP server (RFC 8707), scopes are the scopes that the MCP server requires.
	resource string
	scopes   []string
}

// discover finds the authorization server of an MCP server. It returns FORBIDDEN if the authorization server cannot be trusted,
// NOT_FOUND if there is none, or TOOL_UNAVAILABLE.
func (l *Logins) discover(ctx context.Context, s Server) (issuer, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return issuer{}, fault.New(fault.ValidationError, "it is no URL").WithField("baseURL")
	}
	challenge, demands, err := l.challenge(ctx, s)
	if err != nil {
		return issuer{}, err
	}
	resource, err := l.resource(ctx, u, challenge.Params["resource_metadata"])
	if err != nil {
		return issuer{}, err
	}
	if s.Issuer != "" && !sameIssuer(s.Issuer, resource.AuthorizationServers[0]) {
		return issuer{}, fault.New(fault.Forbidden, "the server names another one than its definition: %q", clip(resource.AuthorizationServers[0])).
			WithField("authorization_servers")
	}
	meta, err := l.issuer(ctx, u, resource.AuthorizationServers[0])
	switch {
	case err != nil:
		return issuer{}, err
	case meta == nil && !demands:
		return issuer{}, fault.New(fault.NotFound, "the server demands no login")
	case meta == nil:
		return issuer{}, fault.New(fault.NotFound, "the server demands a login, but does not tell where").
			WithHint("a token in bearer of its definition may help")
	}
	found := issuer{AuthServerMeta: meta, resource: resource.Resource, scopes: resource.ScopesSupported}
	if scope := challenge.Params["scope"]; scope != "" {
		found.scopes = strings.Fields(scope)
	}
	return found, nil
}

// challenge sends a request without a token, and returns the bearer challenge of the response. demands is set if the server has
// refused the request.
func (l *Logins) challenge(ctx context.Context, s Server) (c oauthex.Challenge, demands bool, err error) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"orch","version":"1"}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(hello))
	if err != nil {
		return c, false, fault.New(fault.ValidationError, "it is no URL").WithField("baseURL")
	}
	for name, values := range s.Headers {
		req.Header[name] = slices.Clone(values)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := l.http.Do(req)
	if err != nil {
		return c, false, unreachable(ctx, req.URL, err)
	}
	defer resp.Body.Close()
	all, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		all = nil // the metadata can also be found without a challenge
	}
	for _, candidate := range all {
		if candidate.Scheme == "bearer" {
			c = candidate
		}
	}
	return c, resp.StatusCode == http.StatusUnauthorized, nil
}

// resource reads the metadata of an MCP server. metadataURL is the URL in the challenge, "" for none. A server without metadata is
// its own authorization server, as in the first version of the MCP specification.
func (l *Logins) resource(ctx context.Context, server *url.URL, metadataURL string) (oauthex.ProtectedResourceMetadata, error) {
	addresses := resourceAddresses(server)
	if metadataURL != "" {
		addresses = append([]string{metadataURL}, addresses...)
	}
	for _, address := range addresses {
		if _, err := parseTrusted(address, loopback(server)); err != nil {
			return oauthex.ProtectedResourceMetadata{}, inField(err, "resource_metadata")
		}
		var meta oauthex.ProtectedResourceMetadata
		exists, err := l.fetch(ctx, address, &meta)
		switch {
		case err != nil:
			return meta, err
		case !exists:
			continue
		case !covers(meta.Resource, server):
			return meta, fault.New(fault.Forbidden, "it is not this server: %q", clip(meta.Resource)).WithField("resource")
		case len(meta.AuthorizationServers) == 0:
			return meta, fault.New(fault.Forbidden, "the server names no authorization server").WithField("authorization_servers")
		}
		return meta, nil
	}
	return oauthex.ProtectedResourceMetadata{
		Resource: resourceName(server), AuthorizationServers: []string{server.Scheme + "://" + server.Host},
	}, nil
}

// issuer reads the metadata of an authorization server. It returns nil if there is none, and FORBIDDEN if the authorization server
// cannot be trusted.
func (l *Logins) issuer(ctx context.Context, server *url.URL, name string) (*oauthex.AuthServerMeta, error) {
	u, err := parseTrusted(name, loopback(server))
	if err != nil {
		return nil, inField(err, "authorization_servers")
	}
	for _, address := range issuerAddresses(u) {
		var meta oauthex.AuthServerMeta
		exists, err := l.fetch(ctx, address, &meta)
		if err != nil {
			return nil, err
		}
		if exists {
			return &meta, checkIssuer(&meta, name, loopback(server))
		}
	}
	return nil, nil //nolint:nilnil // missing metadata is not an error
}

// checkIssuer returns FORBIDDEN if an authorization server cannot be trusted with a login. With local, its addresses may be http on
// a loopback address.
func checkIssuer(meta *oauthex.AuthServerMeta, name string, local bool) error {
	if !sameIssuer(meta.Issuer, name) {
		return fault.New(fault.Forbidden, "it is %q, and not %q", clip(meta.Issuer), clip(name)).WithField("issuer")
	}
	if !slices.Contains(meta.CodeChallengeMethodsSupported, "S256") {
		return fault.New(fault.Forbidden, "the authorization server does not offer PKCE with S256").WithField("code_challenge_methods_supported")
	}
	needed := map[string]string{"authorization_endpoint": meta.AuthorizationEndpoint, "token_endpoint": meta.TokenEndpoint}
	for field, address := range map[string]string{"registration_endpoint": meta.RegistrationEndpoint, "revocation_endpoint": meta.RevocationEndpoint} {
		if address != "" {
			needed[field] = address
		}
	}
	for field, address := range needed {
		if _, err := parseTrusted(address, local); err != nil {
			return inField(err, field)
		}
	}
	return nil
}

// sameIssuer compares names of authorization servers. It ignores a slash at the end, because some servers are inconsistent.
func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// inField sets the field of an error.
func inField(err error, field string) error { return fault.From(err).WithField(field) }
