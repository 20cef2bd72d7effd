package registry

import (
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The transports of a server.
const (
	TransportStdio = "stdio"
	TransportHTTP  = "http"
)

// DefaultTimeout is the default timeout of a call, and of an attempt to connect.
const DefaultTimeout = 30 * time.Second

// MCPConfig is the definition of a server. All its texts may contain ${NAME} and ${NAME:-default} for environment
// variables. Command and Args must not name secret variables, because every user of the machine can see the command line.
type MCPConfig struct {
	SchemaVersion string `json:"schemaVersion"`
	// Name consists of at most 64 lower-case letters, digits and hyphens.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Transport is stdio or http.
	Transport string `json:"transport"`
	// Command, Args, Cwd and Env define a process. Command is a path, or a name to look up in PATH. Cwd is the working
	// directory; a relative path is relative to Config.Dir, which is also the default.
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// BaseURL, Headers and Bearer define a URL. Bearer becomes an Authorization header.
	BaseURL string            `json:"baseURL,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Bearer  string            `json:"bearer,omitempty"`
	// OAuth configures the login to a URL without Bearer or an Authorization header. If it is nil, the server determines all
	// properties of the login.
	OAuth *OAuth `json:"oauth,omitempty"`
	// Capabilities are required of the server: names of tools, or of MCP features such as resources.
	Capabilities []string `json:"capabilities"`
	// Timeout is a Go duration; empty means DefaultTimeout.
	Timeout     string       `json:"timeout,omitempty"`
	RetryPolicy *RetryPolicy `json:"retryPolicy,omitempty"`
	// Tools are patterns (path.Match) for the names of the tools to offer. A pattern that begins with an exclamation mark
	// excludes tools. Empty means all tools.
	Tools []string `json:"tools,omitempty"`
	// Effects maps names or patterns of tools to their effect: read, idempotent, write or destructive. It takes precedence over
	// the hints of the server.
	Effects map[string]string `json:"effects,omitempty"`
	// Concurrency is the most concurrent calls, 1 to 1000; 0 means DefaultConcurrency. Calls that wait for the
	// answer of a person do not count.
	Concurrency int `json:"concurrency,omitempty"`
	// RateLimit is the most calls a minute; 0 means no limit.
	RateLimit int            `json:"rateLimit,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	// Disabled is set for servers that are disabled in the file of an MCP client. They are not started unless they are enabled
	// with Enable.
	Disabled bool `json:"-"`
}

// OAuth configures the login of a person (orch mcp login).
type OAuth struct {
	// ClientID and ClientSecret identify a client that is registered at the authorization server. Without them orch registers
	// itself.
	ClientID     string `json:"clientId,omitempty"`
	ClientSecret string `json:"clientSecret,omitempty"`
	// Issuer is the only authorization server that may be used. If it is empty, the server may name any.
	Issuer string `json:"issuer,omitempty"`
	// Scopes are the requested scopes. If there are none, the scopes that the server names are requested.
	Scopes []string `json:"scopes,omitempty"`
}

// RetryPolicy configures retries of connecting.
type RetryPolicy struct {
	// MaxAttempts is the number of consecutive failures after which the circuit breaker opens: 1 to 10, default 3. A server
	// without a RetryPolicy has 5.
	MaxAttempts int `json:"maxAttempts,omitempty"`
	// Backoff is exponential (1 s to 30 s, default) or fixed (1 s).
	Backoff string `json:"backoff,omitempty"`
}

// timeout returns the timeout of a call.
func (c MCPConfig) timeout() time.Duration {
	if d, err := time.ParseDuration(c.Timeout); err == nil && d > 0 {
		return d
	}
	return DefaultTimeout
}

// masked returns a deep copy without secrets. In fields that may be secret, it hides each value that is not only a reference to a
// variable.
func (c MCPConfig) masked() MCPConfig {
	c.Args, c.Capabilities = slices.Clone(c.Args), slices.Clone(c.Capabilities)
	c.Tools, c.Effects = slices.Clone(c.Tools), maps.Clone(c.Effects)
	c.Env, c.Headers = maskAll(c.Env), maskAll(c.Headers)
	c.Bearer, c.BaseURL = mask(c.Bearer), maskURL(c.BaseURL)
	if c.OAuth != nil {
		c.OAuth = &OAuth{ClientID: c.OAuth.ClientID, ClientSecret: mask(c.OAuth.ClientSecret), Issuer: c.OAuth.Issuer, Scopes: slices.Clone(c.OAuth.Scopes)}
	}
	if c.RetryPolicy != nil {
		policy := *c.RetryPolicy
		c.RetryPolicy = &policy
	}
	c.Metadata = deepCopy(c.Metadata)
	return c
}

// deepCopy returns a deep copy of a decoded JSON object.
func deepCopy(metadata map[string]any) map[string]any {
	raw, err := json.Marshal(metadata)
	if err != nil || metadata == nil {
		return nil
	}
	var copied map[string]any
	if json.Unmarshal(raw, &copied) != nil {
		return nil
	}
	return copied
}

const hidden = "***"

func mask(value string) string {
	if value == "" || regexp.MustCompile(`^(Bearer |Basic )?\$\{[^}]*\}$`).MatchString(value) {
		return withoutDefaults(value)
	}
	return hidden
}

// withoutDefaults removes the defaults from references to variables, because a default may be a secret.
func withoutDefaults(value string) string {
	return regexp.MustCompile(`:-[^}]*\}`).ReplaceAllString(value, "}")
}

func maskAll(values map[string]string) map[string]string {
	if values == nil {
		return nil
	}
	masked := maps.Clone(values)
	for name, value := range masked {
		masked[name] = mask(value)
	}
	return masked
}

// maskURL hides the password and the query of a URL.
func maskURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return hidden
	}
	if u.User == nil && u.RawQuery == "" {
		return text
	}
	if u.User != nil {
		u.User = url.User(hidden)
	}
	if u.RawQuery != "" {
		u.RawQuery = hidden
	}
	return strings.ReplaceAll(u.String(), "%2A", "*")
}
