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
	// Secret is that of a client registered by orch; that of a definition is not stored.
	Secret string `json:"secret,omitempty"`
	Auth   string `json:"auth"`
	// Preset is set for the client of a definition.
	Preset bool `json:"preset,omitempty"`
}

// withSecretOf returns the client with the secret of a definition.
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

// refusal is the error of an endpoint that refused a valid request.
type refusal struct{ code string }

// Error implements error.
func (r *refusal) Error() string { return "the authorization server refuses: " + r.code }

// post sends a form to an endpoint, and returns the answer. TOOL_UNAVAILABLE, or a refusal.
func (l *Logins) post(ctx context.Context, endpoint string, c client, form url.Values) (tokens, error) {
	form.Set("client_id", c.ID)
	if c.Auth == authPost {
		form.Set("client_secret", c.Secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return tokens{}, fault.New(fault.Forbidden, "the endpoint is no address")
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

// errorCode returns the code of an OAuth error, or otherwise if it is invalid; no other part of an answer is shown.
func errorCode(code, otherwise string) string {
	if regexp.MustCompile(`^[a-z_]{1,64}$`).MatchString(code) {
		return code
	}
	return otherwise
}

// update stores tokens in a grant. Missing values stay as they were. FORBIDDEN.
func (g *grant) update(t tokens, now time.Time) error {
	if !sendable(t.Access) || t.Refresh != "" && !sendable(t.Refresh) {
		return fault.New(fault.Forbidden, "the authorization server gives no token that can be sent").WithField("access_token")
	}
	if !strings.EqualFold(t.Type, "bearer") {
		return fault.New(fault.Forbidden, "the authorization server gives a token that is no bearer token").WithField("token_type")
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

// sendable reports whether a text is a token that fits into a header.
func sendable(token string) bool {
	const longest = 32 << 10
	return len(token) <= longest && regexp.MustCompile(`^[\x21-\x7e]+$`).MatchString(token)
}

// expiry returns when a token expires that is valid for seconds, a number or a text; zero if unknown.
func expiry(seconds json.RawMessage, now time.Time) time.Time {
	const longest = 10 * 365 * 24 * time.Hour
	n, err := strconv.ParseFloat(strings.Trim(string(seconds), `"`), 64)
	if err != nil || math.IsNaN(n) || n <= 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(min(n, longest.Seconds()) * float64(time.Second))).UTC()
}
