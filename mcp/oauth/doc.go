// Package oauth logs orch in to MCP servers that demand it, and keeps what they give for that.
//
// The way is that of the authorization chapter of MCP: the server tells its authorization server (RFC 9728), that one
// tells its endpoints (RFC 8414, OpenID Connect Discovery) and takes orch as a client (RFC 7591) unless the definition
// names one. A person decides in a browser; PKCE with S256, the state, the issuer (RFC 9207) and the resource (RFC 8707)
// tie the answer to the question.
//
// What servers say is data, and some of them lie: all addresses are https, or loopback where the server itself is;
// answers are bounded; secrets go to the one endpoint that they are for, and redirects are not followed with them. No
// error and no log holds a token.
package oauth

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// ErrLogin is matched by errors that only a person can mend, by logging in.
var ErrLogin = errors.New("mcp: a login is needed")

// Server is what a definition says of a server, with the values of its variables.
type Server struct {
	// Name has lower-case letters, digits and hyphens, at most 64; it names the file of the login.
	Name string
	// URL is the one that is logged in to. A login counts for no other.
	URL string
	// Headers go with the question whether a login is demanded.
	Headers http.Header
	// ClientID and ClientSecret are those of a client that is registered already; both may be empty.
	ClientID, ClientSecret string
	// Issuer is the one authorization server to trust, so that the secret goes to no other; "" leaves that to the server.
	Issuer string
	// Scopes are asked for; without them those that the server names.
	Scopes []string
}

// Login is what is known of a login. It holds no secret.
type Login struct {
	Server string `json:"server"`
	// Issuer is the authorization server.
	Issuer string   `json:"issuer"`
	Scopes []string `json:"scopes"`
	// Expires is when the access ends unless it is renewed; zero when that was not told.
	Expires time.Time `json:"expires_at,omitzero"`
	// Renewable says that no person is needed for that.
	Renewable bool `json:"renewable"`
}

// Config configures Logins.
type Config struct {
	// Dir is the directory of the files, absolute; it is made with mode 0700 when it is needed.
	Dir string
	// Wait is how long a person may take to log in. Default: 5 min.
	Wait time.Duration
	// Logger gets logins and renewals. Default: nothing is logged.
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

// New returns the logins of a directory, which need not be there.
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

// ID is that of the present login of a server: another login has another one, a renewed one the same. It is "" without
// a login.
func (l *Logins) ID(name string) string {
	g, err := l.files.read(name)
	if err != nil {
		return ""
	}
	return g.ID
}

// check tells why a server cannot be logged in to.
func (s Server) check() error {
	if !validName(s.Name) {
		return fault.New(fault.ValidationError, "is no name of a server").WithField("name")
	}
	if _, err := parseTrusted(s.URL, true); err != nil {
		return fault.New(fault.ValidationError, "a login is for https alone, and for http on this machine").WithField("baseURL")
	}
	return nil
}

// validName reports whether a text is the name of a server. Each request with a login asks, so it compiles no expression.
func validName(name string) bool {
	const longest = 64
	return name != "" && len(name) <= longest && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// loginRequired is the error of a server that wants a login, and there is none.
func loginRequired(name string) error {
	return fault.Wrap(fault.Unauthorized, ErrLogin, "the server demands a login: orch mcp login "+name)
}

// loginExpired is the error of a login that is not good any more.
func loginExpired(name string) error {
	return fault.Wrap(fault.Unauthorized, ErrLogin, "log in again: orch mcp login "+name)
}
