// Package oauth logs orch in to MCP servers that require it, and stores the tokens.
//
// The flow is that of the authorization chapter of MCP. The MCP server names its authorization server (RFC 9728). The authorization
// server publishes its endpoints (RFC 8414, OpenID Connect Discovery), and registers orch as a client (RFC 7591) unless the
// definition of the server has a client id. A person logs in with a browser. PKCE with S256, the state, the issuer (RFC 9207) and
// the resource (RFC 8707) bind the answer to the request.
//
// Everything that servers send is untrusted data. All addresses must be https; loopback addresses may be http if the MCP server is
// on a loopback address too. Responses are limited in size. A secret is sent only to the endpoint that it is for, and redirects of
// such requests are not followed. Errors and logs never contain tokens.
package oauth

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// ErrLogin matches errors after which a person must log in.
var ErrLogin = errors.New("mcp: a login is needed")

// Server is the definition of a server, with its variables replaced by their values.
type Server struct {
	// Name consists of at most 64 lower-case letters, digits and hyphens. The file of the login is named after it.
	Name string
	// URL is the URL of the server. A login is valid only for this URL.
	URL string
	// Headers are sent with the request that checks whether a login is required.
	Headers http.Header
	// ClientID and ClientSecret identify a client that is registered at the authorization server; both may be empty.
	ClientID, ClientSecret string
	// Issuer is the only authorization server to trust, so that the secret is sent to no other. If it is empty, the server names
	// its authorization server.
	Issuer string
	// Scopes are the scopes to request. If there are none, the scopes that the server names are requested.
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
	// Renewable is set if the access token can be renewed without a person.
	Renewable bool `json:"renewable"`
}

// Config configures Logins.
type Config struct {
	// Dir is the absolute path of the directory for the files. It is created with mode 0700 when it is needed.
	Dir string
	// Wait is how long a person may take to log in. Default: 5 min.
	Wait time.Duration
	// Logger logs logins and renewals. With nil nothing is logged.
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
		const defaultWait = 5 * time.Minute
		c.Wait = defaultWait
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Logins{files: files{c.Dir}, wait: c.Wait, http: newClient(), log: c.Logger, now: time.Now}
}

// ID returns the id of the present login of a server, "" if there is none. Each login has a new id; renewing tokens does not change
// the id.
func (l *Logins) ID(name string) string {
	g, err := l.files.read(name)
	if err != nil {
		return ""
	}
	return g.ID
}

// check returns VALIDATION_ERROR if a login to the server is impossible.
func (s Server) check() error {
	if !validName(s.Name) {
		return fault.New(fault.ValidationError, "is not a valid server name").WithField("name")
	}
	if _, err := parseTrusted(s.URL, true); err != nil {
		return fault.New(fault.ValidationError, "a login is for https alone, and for http on this machine").WithField("baseURL")
	}
	return nil
}

// validName reports whether a text is a valid name of a server. It uses no regular expression because it is called for each request.
func validName(name string) bool {
	const longest = 64
	return name != "" && len(name) <= longest && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// loginRequired returns the error if a server requires a login and there is none.
func loginRequired(name string) error {
	return fault.Wrap(fault.Unauthorized, ErrLogin, "the server demands a login: orch mcp login "+name)
}

// loginExpired returns the error for a login that is no longer valid.
func loginExpired(name string) error {
	return fault.Wrap(fault.Unauthorized, ErrLogin, "log in again: orch mcp login "+name)
}
