// Package oauth logs orch in to MCP servers that require it, and stores the tokens.
//
// The flow is that of the authorization chapter of MCP: the server names its authorization server (RFC 9728), which
// publishes its endpoints (RFC 8414, OpenID Connect Discovery) and registers orch as a client (RFC 7591) unless the definition
// has one. A person decides in a browser; PKCE with S256, the state, the issuer (RFC 9207) and the resource (RFC 8707)
// bind the answer to the request.
//
// Everything that servers send is untrusted data: all addresses must be https, or loopback where the server itself is;
// answers are limited in size; secrets are sent only to the endpoint that they are for, and redirects with them are not followed. No
// error and no log contains a token.
package oauth

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// ErrLogin is matched by errors that require a person to log in.
var ErrLogin = errors.New("mcp: a login is needed")

// Server is the definition of a server, with its variables replaced by their values.
type Server struct {
	// Name consists of lower-case letters, digits and hyphens, at most 64; it names the file of the login.
	Name string
	// URL is the URL of the server. A login is valid for no other URL.
	URL string
	// Headers are sent with the request that finds out whether a login is required.
	Headers http.Header
	// ClientID and ClientSecret are those of an already registered client; both may be empty.
	ClientID, ClientSecret string
	// Issuer is the only authorization server to trust, so that the secret is sent to no other; with "" the server names it.
	Issuer string
	// Scopes are requested; without them those that the server names.
	Scopes []string
}

// Login describes a login. It contains no secret.
type Login struct {
	Server string `json:"server"`
	// Issuer is the authorization server.
	Issuer string   `json:"issuer"`
	Scopes []string `json:"scopes"`
	// Expires is when the access token expires; zero if unknown.
	Expires time.Time `json:"expires_at,omitzero"`
	// Renewable is set if it can be renewed without a person.
	Renewable bool `json:"renewable"`
}

// Config configures Logins.
type Config struct {
	// Dir is the directory of the files, absolute; it is created with mode 0700 when it is needed.
	Dir string
	// Wait is how long a person may take to log in. Default: 5 min.
	Wait time.Duration
	// Logger logs logins and renewals. Default: nothing is logged.
	Logger *slog.Logger
}

// Logins are the logins of a user at MCP servers. They are safe for concurrent use, also by several processes.
type Logins struct {
	files files
	wait  time.Duration
	http  *http.Client
	log   *slog.Logger
	now   func() time.Time
}

// New returns the logins in a directory, which need not exist.
func New(c Config) *Logins {
	if c.Wait == 0 {
		const patience = 5 * time.Minute
		c.Wait = patience
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Logins{files: files{c.Dir}, wait: c.Wait, http: newClient(), log: c.Logger, now: time.Now}
}

// ID returns the id of the present login of a server: a new login has a new id, a renewed one the same. It is "" without
// a login.
func (l *Logins) ID(name string) string {
	g, err := l.files.read(name)
	if err != nil {
		return ""
	}
	return g.ID
}

// check returns why a login to the server is impossible.
func (s Server) check() error {
	if !validName(s.Name) {
		return fault.New(fault.ValidationError, "is no name of a server").WithField("name")
	}
	if _, err := parseTrusted(s.URL, true); err != nil {
		return fault.New(fault.ValidationError, "a login is for https alone, and for http on this machine").WithField("baseURL")
	}
	return nil
}

// validName reports whether a text is the name of a server. It runs for each request with a login, so it uses no regular expression.
func validName(name string) bool {
	const longest = 64
	return name != "" && len(name) <= longest && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// loginRequired returns the error of a server that requires a login, without one.
func loginRequired(name string) error {
	return fault.Wrap(fault.Unauthorized, ErrLogin, "the server demands a login: orch mcp login "+name)
}

// loginExpired returns the error of a login that is no longer valid.
func loginExpired(name string) error {
	return fault.Wrap(fault.Unauthorized, ErrLogin, "log in again: orch mcp login "+name)
}
