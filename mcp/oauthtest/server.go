// Package oauthtest provides an authorization server and an MCP server that requires its tokens, for tests. The authorization
// server refuses each request that is not exactly right.
package oauthtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Server is both servers. Its fields must be set before the first request. Logins are approved at once, without a person.
type Server struct {
	// URL is the URL of the authorization server. The MCP server is at /mcp below it, with one tool, whoami.
	URL string
	// Life is the lifetime of access tokens in responses to clients; 0 omits it from the responses.
	Life time.Duration
	// Clients are the secrets of registered clients by client id. Tests may add clients in advance.
	Clients map[string]string
	// Secretive makes the server issue a secret to each client that registers. The client must send the secret.
	Secretive bool
	// Document changes the metadata at a well-known path before it is sent; may be nil.
	Document func(path string, document map[string]any)
	// Answer changes the parameters of the redirect; may be nil.
	Answer func(parameters map[string]string)
	// Intercept answers requests in place of the server if it returns true; may be nil.
	Intercept func(w http.ResponseWriter, r *http.Request) bool

	web      *httptest.Server
	mcp      http.Handler
	sessions func() iter.Seq[*mcp.ServerSession]

	mu       sync.Mutex
	redirect map[string]string // redirect URIs by client id
	codes    map[string]codeGrant
	access   map[string]bool // valid access tokens
	refresh  map[string]bool // refresh tokens; false for a used one
	secrets  []string
	requests []string
}

// codeGrant contains the properties of the request that a code was issued for.
type codeGrant struct{ client, challenge, redirect, resource string }

// New starts the servers, which end with the test.
func New(tb testing.TB) *Server {
	tb.Helper()
	s := Start()
	tb.Cleanup(s.Close)
	return s
}

// Start starts the servers until Close.
func Start() *Server {
	s := &Server{
		Clients: map[string]string{}, redirect: map[string]string{}, codes: map[string]codeGrant{},
		access: map[string]bool{}, refresh: map[string]bool{},
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "protected", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "whoami"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Ada"}}}, nil, nil
	})
	s.mcp = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	s.sessions = server.Sessions
	s.web = httptest.NewUnstartedServer(s)
	s.URL = "http://" + s.web.Listener.Addr().String() // set before the first request
	s.web.Start()
	return s
}

// Close stops the servers.
func (s *Server) Close() {
	for session := range s.sessions() {
		_ = session.Close() // its client may have disconnected
	}
	s.web.CloseClientConnections()
	s.web.Close()
}

// Expire expires all access tokens; refresh tokens stay valid.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
}

// Revoke revokes all tokens.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
	clear(s.refresh)
}

// Secrets returns all secrets: tokens, codes and client secrets.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.secrets)
}

// Good returns the number of valid access tokens.
func (s *Server) Good() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.access)
}

// Count returns the number of requests of a kind, such as "POST /token refresh_token".
func (s *Server) Count(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, kind := range s.requests {
		if kind == request {
			n++
		}
	}
	return n
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Intercept != nil && s.Intercept(w, r) {
		return
	}
	if r.URL.Path == "/mcp" {
		s.requireToken(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = r.ParseForm() // a request without a form is refused below
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.PostForm.Get("grant_type")))
	switch r.Method + " " + r.URL.Path {
	case "GET /.well-known/oauth-protected-resource/mcp":
		s.writeMetadata(w, r, map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}, "scopes_supported": []string{"notes"}})
	case "GET /.well-known/oauth-authorization-server":
		s.writeMetadata(w, r, map[string]any{
			"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
			"registration_endpoint": s.URL + "/register", "revocation_endpoint": s.URL + "/revoke",
			"scopes_supported": []string{"notes", "offline_access"}, "code_challenge_methods_supported": []string{"S256"},
			"authorization_response_iss_parameter_supported": true,
		})
	case "POST /register":
		s.register(w, r)
	case "GET /authorize":
		s.authorize(w, r)
	case "POST /token":
		s.token(w, r)
	case "POST /revoke":
		delete(s.access, r.PostForm.Get("token"))
		delete(s.refresh, r.PostForm.Get("token"))
	default:
		http.NotFound(w, r)
	}
}

// requireToken passes requests with a valid token to the MCP server.
func (s *Server) requireToken(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	good := s.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	s.mu.Unlock()
	if !good {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.URL+`/.well-known/oauth-protected-resource/mcp"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	s.mcp.ServeHTTP(w, r)
}

func (s *Server) writeMetadata(w http.ResponseWriter, r *http.Request, document map[string]any) {
	if s.Document != nil {
		s.Document(r.URL.Path, document)
	}
	answer(w, http.StatusOK, document)
}

func answer(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // the client may have disconnected
}

func refuse(w http.ResponseWriter, code string) {
	answer(w, http.StatusBadRequest, map[string]string{"error": code, "error_description": "no \x1b[31m"})
}

// secret returns a new secret.
func (s *Server) secret(kind string) string {
	text := kind + "-" + rand.Text()
	s.secrets = append(s.secrets, text)
	return text
}
