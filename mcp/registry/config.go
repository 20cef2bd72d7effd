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
// variables; the arguments of a process may not name secrets, because every user of the machine sees them.
type MCPConfig struct {
	SchemaVersion string `json:"schemaVersion"`
	// Name consists of lower-case letters, digits and hyphens, at most 64.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Transport is stdio or http.
	Transport string `json:"transport"`
	// Command, Args, Cwd and Env define a process. Command is a path, or a name to look up in PATH; a relative
	// Cwd is relative to the directory of the registry, which is the default.
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// BaseURL, Headers and Bearer define a URL. Bearer becomes an Authorization header.
	BaseURL string            `json:"baseURL,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Bearer  string            `json:"bearer,omitempty"`
	// OAuth configures logins at a URL without a token; with nil the server decides everything.
	OAuth *OAuth `json:"oauth,omitempty"`
	// Capabilities are required of the server: names of its tools, or of MCP features such as tools.
	Capabilities []string `json:"capabilities"`
	// Timeout is a Go duration; empty means DefaultTimeout.
	Timeout     string       `json:"timeout,omitempty"`
	RetryPolicy *RetryPolicy `json:"retryPolicy,omitempty"`
	// Tools are patterns (path.Match) of the names of the offered tools; those that begin with an exclamation
	// mark exclude tools. Empty means all.
	Tools []string `json:"tools,omitempty"`
	// Effects declares tools, by name or pattern, as read, idempotent, write or destructive. It takes precedence over
	// the hints of the server.
	Effects map[string]string `json:"effects,omitempty"`
	// Concurrency is the most concurrent calls, 1 to 1000; 0 means DefaultConcurrency. Calls that wait for an
	// answer of a person do not count.
	Concurrency int `json:"concurrency,omitempty"`
	// RateLimit is the most calls a minute; 0 means no limit.
	RateLimit int            `json:"rateLimit,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	// Disabled is set for servers in a client's file that are not started unless they are enabled here.
	Disabled bool `json:"-"`
}

// OAuth configures the login of a person (orch mcp login).
type OAuth struct {
	// ClientID and ClientSecret are those of an already registered client; without them orch registers itself.
	ClientID     string `json:"clientId,omitempty"`
	ClientSecret string `json:"clientSecret,omitempty"`
	// Issuer is the only authorization server that gets them; without it the server may name any.
	Issuer string `json:"issuer,omitempty"`
	// Scopes are requested instead of those that the server names.
	Scopes []string `json:"scopes,omitempty"`
}

// RetryPolicy configures retries of connecting.
type RetryPolicy struct {
	// MaxAttempts is the number of consecutive failures after which the circuit breaker opens: 1 to 10, default 3.
	// Without a policy it is 5.
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

// masked returns a deep copy without secrets: it hides values that are not just a reference to a variable.
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

// deepCopy returns a deep copy of a decoded JSON value.
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

// withoutDefaults removes the defaults from references, which may be secrets too.
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
