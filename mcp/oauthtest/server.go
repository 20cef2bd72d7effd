// Package oauthtest is an authorization server with an MCP server behind it, for tests: small, and strict about what a
// client has to send.
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

// Server is both servers. Its fields are set before the first request; its person at the browser agrees at once.
type Server struct {
	// URL is that of the authorization server; the MCP server is at /mcp below it, with the tool whoami.
	URL string
	// Life is how long an access token is good; 0 is not told to clients.
	Life time.Duration
	// Clients are registered already: their secrets by their ids.
	Clients map[string]string
	// Secretive gives registered clients a secret, which they then have to send.
	Secretive bool
	// Document changes what is told at a well-known path, before it is sent; nil changes nothing.
	Document func(path string, document map[string]any)
	// Answer changes the parameters with which the browser comes back; nil changes nothing.
	Answer func(parameters map[string]string)
	// Intercept answers requests in place of the server when it returns true; nil answers none.
	Intercept func(w http.ResponseWriter, r *http.Request) bool

	web      *httptest.Server
	mcp      http.Handler
	sessions func() iter.Seq[*mcp.ServerSession]

	mu       sync.Mutex
	redirect map[string]string // of clients
	codes    map[string]codeGrant
	access   map[string]bool
	refresh  map[string]bool // false when it was used
	given    []string
	requests []string
}

// codeGrant is what a code was given for.
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
	s.URL = "http://" + s.web.Listener.Addr().String() // known before the first request
	s.web.Start()
	return s
}

// Close ends the servers.
func (s *Server) Close() {
	for session := range s.sessions() {
		_ = session.Close() // its client may be gone
	}
	s.web.CloseClientConnections()
	s.web.Close()
}

// Expire ends all access tokens; those for renewal stay.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
}

// Revoke ends all tokens.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
	clear(s.refresh)
}

// Secrets are all that must not be seen: tokens, codes and secrets of clients.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.given)
}

// Good counts the access tokens that are good.
func (s *Server) Good() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.access)
}

// Count counts the requests of a kind, such as "POST /token refresh_token".
func (s *Server) Count(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, one := range s.requests {
		if one == request {
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
	_ = r.ParseForm() // without a form it is refused below
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

// requireToken lets requests with a good token through to the MCP server.
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
	_ = json.NewEncoder(w).Encode(document) // the client may be gone
}

func refuse(w http.ResponseWriter, code string) {
	answer(w, http.StatusBadRequest, map[string]string{"error": code, "error_description": "no \x1b[31m"})
}

// secret makes a secret.
func (s *Server) secret(kind string) string {
	text := kind + "-" + rand.Text()
	s.given = append(s.given, text)
	return text
}
