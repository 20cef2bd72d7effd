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

// DefaultTimeout bounds a call, and an attempt to connect, where the definition says nothing.
const DefaultTimeout = 30 * time.Second

// MCPConfig is the definition of a server. ${NAME} and ${NAME:-default} stand for variables of the environment in
// all its texts; the arguments of a process may not name secrets, because every user of the machine sees them.
type MCPConfig struct {
	SchemaVersion string `json:"schemaVersion"`
	// Name has lower-case letters, digits and hyphens, at most 64.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Transport is stdio or http.
	Transport string `json:"transport"`
	// Command, Args, Cwd and Env are those of a process. Command is a path, or a name that PATH finds; a relative
	// Cwd counts from the directory of the registry, which is the default.
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// BaseURL, Headers and Bearer are those of a URL. Bearer becomes an Authorization header.
	BaseURL string            `json:"baseURL,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Bearer  string            `json:"bearer,omitempty"`
	// OAuth is for logins at a URL without a token; nil leaves all to the server.
	OAuth *OAuth `json:"oauth,omitempty"`
	// Capabilities are what the server has to offer: names of its tools, or of features of MCP such as tools.
	Capabilities []string `json:"capabilities"`
	// Timeout is a Go duration; empty means DefaultTimeout.
	Timeout     string       `json:"timeout,omitempty"`
	RetryPolicy *RetryPolicy `json:"retryPolicy,omitempty"`
	// Tools are patterns (path.Match) of the names of the tools that are offered; those that begin with an exclamation
	// mark take out. Empty means all.
	Tools []string `json:"tools,omitempty"`
	// Effects say of tools, by name or pattern, whether they are read, idempotent, write or destructive. They count
	// more than what the server says of itself.
	Effects map[string]string `json:"effects,omitempty"`
	// Concurrency is how many calls may work at once, 1 to 1000; 0 means DefaultConcurrency. Calls that wait for an
	// answer of a person do not count.
	Concurrency int `json:"concurrency,omitempty"`
	// RateLimit is how many calls may be made in a minute; 0 means any number.
	RateLimit int            `json:"rateLimit,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	// Disabled servers of a client's map are not started unless they are enabled here.
	Disabled bool `json:"-"`
}

// OAuth says how a person logs in (orch mcp login).
type OAuth struct {
	// ClientID and ClientSecret are those of a client that is registered already; without them orch registers itself.
	ClientID     string `json:"clientId,omitempty"`
	ClientSecret string `json:"clientSecret,omitempty"`
	// Issuer is the one authorization server that gets them; without it the server may name any.
	Issuer string `json:"issuer,omitempty"`
	// Scopes are asked for in place of those that the server names.
	Scopes []string `json:"scopes,omitempty"`
}

// RetryPolicy says how connecting is tried again.
type RetryPolicy struct {
	// MaxAttempts is how many in a row may fail before the server is left alone for a while: 1 to 10, default 3.
	// Without a policy it is 5.
	MaxAttempts int `json:"maxAttempts,omitempty"`
	// Backoff is exponential (1 s to 30 s, default) or fixed (1 s).
	Backoff string `json:"backoff,omitempty"`
}

// timeout returns the bound of a call.
func (c MCPConfig) timeout() time.Duration {
	if d, err := time.ParseDuration(c.Timeout); err == nil && d > 0 {
		return d
	}
	return DefaultTimeout
}

// masked returns a deep copy without secrets: values that are no mere reference to a variable are hidden.
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

// deepCopy returns a copy of what came from JSON.
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

// withoutDefaults takes the defaults out of references, which may be secrets too.
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
