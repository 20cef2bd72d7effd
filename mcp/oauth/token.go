package oauth

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// The methods of client authentication.
const (
	authNone  = "none"
	authPost  = "client_secret_post"
	authBasic = "client_secret_basic"
)

// client is orch as a client of an authorization server.
type client struct {
	ID string `json:"id"`
	// Secret is the secret of a client that orch has registered. The secret of a preset client is not stored.
	Secret string `json:"secret,omitempty"`
	// Auth is the authentication method.
	Auth string `json:"auth"`
	// Preset is set for a client from the definition of the server.
	Preset bool `json:"preset,omitempty"`
}

// withSecretOf returns the client with its secret: for a preset client, the secret in the definition of the server.
func (c client) withSecretOf(s Server) client {
	if c.Preset {
		c.Secret = s.ClientSecret
	}
	return c
}

// tokens is the answer of a token endpoint.
type tokens struct {
	Access  string          `json:"access_token"`
	Type    string          `json:"token_type"`
	Refresh string          `json:"refresh_token"`
	Scope   string          `json:"scope"`
	Expires json.RawMessage `json:"expires_in"`
	Error   string          `json:"error"`
}

// refusal is the error if an authorization server has refused a request; code is the OAuth error code.
type refusal struct{ code string }

// Error implements error.
func (r *refusal) Error() string { return "the authorization server refuses: " + r.code }

// post sends a form to an endpoint and returns the answer. It returns TOOL_UNAVAILABLE, or a *refusal.
func (l *Logins) post(ctx context.Context, endpoint string, c client, form url.Values) (tokens, error) {
	form.Set("client_id", c.ID)
	if c.Auth == authPost {
		form.Set("client_secret", c.Secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return tokens{}, fault.New(fault.Forbidden, "the endpoint is not a valid address")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if c.Auth == authBasic {
		req.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret))
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return tokens{}, unreachable(ctx, req.URL, err)
	}
	defer resp.Body.Close()
	content, err := readAnswer(resp.Body)
	if err != nil {
		return tokens{}, unreachable(ctx, req.URL, err)
	}
	var answer tokens
	if json.Unmarshal(content, &answer) != nil { // the cause might quote a token
		answer = tokens{}
	}
	switch {
	case resp.StatusCode == http.StatusOK && answer.Error == "":
		return answer, nil
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusRequestTimeout, resp.StatusCode >= http.StatusInternalServerError:
		return tokens{}, fault.New(fault.ToolUnavailable, "%s answers %d", origin(req.URL), resp.StatusCode)
	}
	return tokens{}, &refusal{errorCode(answer.Error, "status "+strconv.Itoa(resp.StatusCode))}
}

// errorCode returns the code of an OAuth error if it is valid, otherwise fallback. Other parts of an error response are never shown.
func errorCode(code, fallback string) string {
	if regexp.MustCompile(`^[a-z_]{1,64}$`).MatchString(code) {
		return code
	}
	return fallback
}

// update stores new tokens in a grant. A missing refresh token or scope does not change the grant. update returns FORBIDDEN for
// invalid tokens.
func (g *grant) update(t tokens, now time.Time) error {
	if !sendable(t.Access) || t.Refresh != "" && !sendable(t.Refresh) {
		return fault.New(fault.Forbidden, "the authorization server gives no token that can be sent").WithField("access_token")
	}
	if !strings.EqualFold(t.Type, "bearer") {
		return fault.New(fault.Forbidden, "the authorization server gives a token that is not a bearer token").WithField("token_type")
	}
	g.Access, g.Expires, g.RenewAt = t.Access, expiry(t.Expires, now), time.Time{}
	if !g.Expires.IsZero() {
		const margin, part = 30 * time.Second, 5
		g.RenewAt = g.Expires.Add(-min(margin, g.Expires.Sub(now)/part))
	}
	if t.Refresh != "" {
		g.Refresh = t.Refresh
	}
	if t.Scope != "" {
		g.Scopes = strings.Fields(t.Scope)
	}
	return nil
}

// sendable reports whether a token can be sent in a header.
func sendable(token string) bool {
	const longest = 32 << 10
	return len(token) <= longest && regexp.MustCompile(`^[\x21-\x7e]+$`).MatchString(token)
}

// expiry returns the time that is the given number of seconds after now; zero if seconds is not a positive number. seconds may be a
// JSON number or string.
func expiry(seconds json.RawMessage, now time.Time) time.Time {
	const longest = 10 * 365 * 24 * time.Hour
	n, err := strconv.ParseFloat(strings.Trim(string(seconds), `"`), 64)
	if err != nil || math.IsNaN(n) || n <= 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(min(n, longest.Seconds()) * float64(time.Second))).UTC()
}
