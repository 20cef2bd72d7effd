// Package rest is the HTTP API of a node below /api/v1, and the way in for a browser.
//
// One table (routes) maps HTTP methods and paths to the methods of api.API. The handlers, the roles that may call them and the
// OpenAPI document are derived from it. Requests and replies are the types of package api as JSON. The actor of a request is always
// the authenticated identity, and an identity that sees only its own tasks gets NOT_FOUND for all others.
//
// Clients authenticate with a bearer token, or with the cookie that a one-time link sets (Logins).
package rest

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Prefix is the path of the API, Pages that of the web page.
const (
	Prefix = "/api/v1"
	Pages  = "/ui/"
)

const (
	// MaxBody is the most bytes of the body of a request.
	MaxBody = 4 << 20
	// MaxWait is the longest wait that a client may request.
	MaxWait = time.Minute
	// KeepAlive is the interval of comments on an idle stream.
	KeepAlive = 15 * time.Second
)

// Role is the role of an identity: a set of permissions.
type Role string

// The roles. Operator and Viewer see all tasks, Submitter and Agent their own.
const (
	Operator  Role = "operator"
	Submitter Role = "submitter"
	Agent     Role = "agent"
	Viewer    Role = "viewer"
)

// Roles returns all roles, the most powerful first.
func Roles() []Role { return []Role{Operator, Submitter, Agent, Viewer} }

// seesAll reports whether a role sees the tasks of all identities.
func (r Role) seesAll() bool { return r == Operator || r == Viewer }

// Authenticator authenticates clients.
type Authenticator interface {
	// Authenticate returns the client with a bearer token. It returns UNAUTHORIZED or TOKEN_EXPIRED for an invalid token.
	Authenticate(ctx context.Context, token string) (Client, error)
	// Client returns the client of a login. It returns UNAUTHORIZED or TOKEN_EXPIRED if the token of the login has ended.
	Client(l Login) (Client, error)
	// While returns a context that ends with the token of a login. The caller must call cancel.
	While(ctx context.Context, l Login) (valid context.Context, cancel context.CancelFunc)
}

// Client is the authenticated sender of a request.
type Client interface {
	// Name returns the actor in the log, such as user:ada.
	Name() string
	Role() Role
	// Admit counts a request of size bytes, -1 if unknown. It returns RATE_LIMITED if the client exceeds its limits. The caller
	// must call leave when the request has ended.
	Admit(size int64) (leave func(), err error)
	// Sees reports whether the client sees a tool. A client with a narrowed token may only use the routes whose tool it sees.
	Sees(tool string) bool
	// Narrowed reports whether the client sees only some tools, or only reads.
	Narrowed() bool
	// Owns reports whether a task belongs to the client.
	Owns(ctx context.Context, id events.TaskID) (bool, error)
	// Restrict restricts a submission to the permissions of the client. call is the id of the call that an agent works on, or
	// empty.
	Restrict(r *api.SubmitRequest, call string) error
}

// Config configures a Server. API and Authenticator are required.
type Config struct {
	API           api.API
	Authenticator Authenticator
	// Redact removes secrets from the texts of errors.
	Redact func(text string) string
	// Rebound reports whether a request is for a foreign host name (DNS rebinding). Default: none is.
	Rebound func(*http.Request) bool
	// Policy judges calls by the policy of the node, Agents describes its agents, Work gives them calls, Servers describes the external
	// MCP servers of the node, Bulk acts on many tasks. Nil means that the node does not offer that.
	Policy  PolicyService
	Agents  AgentService
	Work    WorkService
	Servers ServerService
	Bulk    BulkService
	// Blob reads a large value of the log. It is required to read large plans.
	Blob func(ctx context.Context, ref string) ([]byte, error)
	// Refused is called for a request that was refused before it reached the API, with the operation of its route; who is empty if the
	// client is not known. Nil means that nobody wants to know.
	Refused func(ctx context.Context, who, operation string, why error)
	// Metrics writes the metrics of the node. Nil means that it has none.
	Metrics func(ctx context.Context, w io.Writer) error
	// Feed reports changed tasks for GET /events. Nil means that the node has none.
	Feed *Feed
	// Logins holds the logins of browsers. Nil means that there are none.
	Logins *Logins
	// Files are the files of the web page. Nil means that there is no page.
	Files fs.FS
	// KeepAlive is the interval of comments on an idle stream. Default: KeepAlive.
	KeepAlive time.Duration
	// Now is the clock. Default: time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Redact == nil {
		c.Redact = func(text string) string { return text }
	}
	if c.Refused == nil {
		c.Refused = func(context.Context, string, string, error) {}
	}
	if c.Rebound == nil {
		c.Rebound = func(*http.Request) bool { return false }
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = KeepAlive
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Server serves the API.
type Server struct {
	cfg     Config
	mux     *http.ServeMux
	streams streamLimits
	inboxes inboxCounter
	// life is cancelled by Close, and ends all streams.
	life context.Context //nolint:containedctx // the lifetime of the server
	stop context.CancelFunc
}

// New returns a server. It returns VALIDATION_ERROR if the configuration is incomplete.
func New(cfg Config) (*Server, error) {
	if cfg.API == nil || cfg.Authenticator == nil {
		return nil, fault.New(fault.ValidationError, "the HTTP API needs an API and an authenticator")
	}
	s := &Server{cfg: cfg.withDefaults()}
	s.life, s.stop = context.WithCancel(context.Background())
	s.inboxes = inboxCounter{api: s.cfg.API}
	s.mux = s.newMux()
	return s, nil
}

// Close ends all streams. Later streams end at once.
func (s *Server) Close() { s.stop() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// newMux returns the handlers of all paths. Every path has one handler for all HTTP methods, so that a wrong method is answered in
// the format of the API.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	byPath := map[string]verbs{}
	for _, rt := range routes() {
		if byPath[rt.path] == nil {
			byPath[rt.path] = verbs{}
		}
		byPath[rt.path][rt.verb] = rt
	}
	for path, v := range byPath {
		mux.Handle(Prefix+path, s.handlePath(v))
	}
	mux.Handle(Prefix+"/", s.handlePath(nil))
	if s.cfg.Metrics != nil {
		mux.Handle(MetricsPath, s.handlePath(verbs{http.MethodGet: metricsRoute()}))
	}
	if s.cfg.Files != nil {
		s.addPages(mux)
	}
	return mux
}
