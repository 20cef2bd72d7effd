package oauth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/oauth"
	"github.com/orch-dev/orch/mcp/oauthtest"
)

// person logs in at servers.
type person struct {
	*oauth.Logins

	t    *testing.T
	web  *oauthtest.Server
	dir  string
	log  *bytes.Buffer
	page atomic.Value
}

func newPerson(t *testing.T) *person {
	t.Helper()
	p := &person{t: t, web: oauthtest.New(t), dir: filepath.Join(t.TempDir(), "state", "logins"), log: &bytes.Buffer{}}
	p.Logins = oauth.New(oauth.Config{Dir: p.dir, Wait: time.Minute, Logger: slog.New(slog.NewTextHandler(p.log, nil))})
	return p
}

func (p *person) server() oauth.Server { return oauth.Server{Name: "notes", URL: p.web.URL + "/mcp"} }

// login logs in with a browser that follows redirects.
func (p *person) login(s oauth.Server) (oauth.Login, error) {
	over := make(chan struct{})
	close(over)
	login, err := p.Login(p.t.Context(), s, func(address string) {
		over = make(chan struct{})
		go func() {
			defer close(over)
			p.page.Store(p.get(address))
		}()
	})
	<-over
	for _, secret := range p.web.Secrets() {
		assert.NotContains(p.t, p.log.String(), secret)
		if err != nil {
			assert.NotContains(p.t, err.Error(), secret)
		}
	}
	return login, err
}

// get opens a page, and returns it, or the error.
func (p *person) get(address string) string {
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		return err.Error()
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// age makes a login one that is to be renewed; ended one that is not good any more.
func age(t *testing.T, file string, ended bool) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	var document map[string]any
	require.NoError(t, json.Unmarshal(content, &document))
	require.Contains(t, document, "renew_at")
	document["renew_at"] = time.Now().Add(-time.Second)
	if ended {
		document["expires_at"] = time.Now().Add(-time.Second)
	}
	content, err = json.Marshal(document)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, content, 0o600))
}

func TestLogin(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*oauthtest.Server){
		"registered here": func(*oauthtest.Server) {},
		"with a secret":   func(s *oauthtest.Server) { s.Secretive = true },
		"OpenID Connect": func(s *oauthtest.Server) {
			s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/.well-known/oauth-authorization-server" {
					http.NotFound(w, r)
					return true
				}
				if r.URL.Path == "/.well-known/openid-configuration" {
					r.URL.Path = "/.well-known/oauth-authorization-server"
				}
				return false
			}
		},
		"server that tells nothing of itself": func(s *oauthtest.Server) {
			s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, "protected-resource") || r.URL.Path == "/mcp" && r.Header.Get("Authorization") == "" {
					w.WriteHeader(http.StatusUnauthorized)
					return true
				}
				return false
			}
		},
		"issuer that is not announced": func(s *oauthtest.Server) {
			s.Document = func(_ string, d map[string]any) { delete(d, "authorization_response_iss_parameter_supported") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t)
			change(p.web)
			login, err := p.login(p.server())
			require.NoError(t, err)
			assert.Equal(t, oauth.Login{Server: "notes", Issuer: p.web.URL, Scopes: []string{"notes"}, Renewable: true}, login)
			assert.Contains(t, p.page.Load(), "orch has the answer")
			source := p.Source(p.server())
			token, err := source.Token(t.Context())
			require.NoError(t, err)
			p.web.Expire()
			another, err := source.Renew(t.Context(), token)
			require.NoError(t, err)
			assert.NotEqual(t, token, another)
			assert.Equal(t, "*** and ***", source.Conceal(token+" and "+another))
			again, err := source.Renew(t.Context(), token)
			require.NoError(t, err)
			assert.Equal(t, another, again, "somebody else has renewed it")
		})
	}
}

func TestHostileMetadata(t *testing.T) {
	t.Parallel()
	set := func(name string, value any) func(*oauthtest.Server) {
		return func(s *oauthtest.Server) {
			s.Document = func(_ string, d map[string]any) {
				if _, there := d[name]; there {
					d[name] = value
				}
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*oauthtest.Server)
		field  string
	}{
		"other resource":              {set("resource", "https://bank.example.com/mcp"), "resource"},
		"no authorization server":     {set("authorization_servers", []string{}), "authorization_servers"},
		"plain http":                  {set("authorization_servers", []string{"http://as.example.com"}), "authorization_servers"},
		"other issuer":                {set("issuer", "https://bank.example.com"), "issuer"},
		"no PKCE":                     {set("code_challenge_methods_supported", []string{"plain"}), "code_challenge_methods_supported"},
		"script to open":              {set("authorization_endpoint", "javascript:alert(1)"), "authorization_endpoint"},
		"file to open":                {set("authorization_endpoint", "file:///etc/passwd"), "authorization_endpoint"},
		"nothing to open":             {set("authorization_endpoint", ""), "authorization_endpoint"},
		"token over plain http":       {set("token_endpoint", "http://as.example.com/token"), "token_endpoint"},
		"registration over http":      {set("registration_endpoint", "http://as.example.com/"), "registration_endpoint"},
		"revocation over http":        {set("revocation_endpoint", "http://as.example.com/"), "revocation_endpoint"},
		"no registration":             {set("registration_endpoint", ""), "oauth.clientId"},
		"scopes without end":          {set("scopes_supported", []string{strings.Repeat("x", 20<<10)}), "scopes_supported"},
		"huge document":               {set("scopes_supported", []string{strings.Repeat("x", 2<<20)}), ""},
		"a document of another shape": {set("scopes_supported", "notes"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t)
			c.change(p.web)
			_, err := p.Login(t.Context(), p.server(), func(address string) { assert.Fail(t, "nobody is to be sent there", address) })
			require.Error(t, err)
			code := fault.Forbidden
			if c.field == "oauth.clientId" {
				code = fault.RequiredField
			}
			require.True(t, fault.Has(err, code), "%v", err)
			assert.Equal(t, c.field, fault.From(err).Field)
			assert.NoDirExists(t, p.dir)
		})
	}
}

func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	set := func(name, value string) func(*oauthtest.Server) {
		return func(s *oauthtest.Server) { s.Answer = func(p map[string]string) { p[name] = value } }
	}
	tokens := func(status int, body string) func(*oauthtest.Server) {
		return func(s *oauthtest.Server) {
			s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/token" {
					w.WriteHeader(status)
					_, err := io.WriteString(w, body)
					return err == nil
				}
				return false
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*oauthtest.Server)
		code   fault.Code
		text   string
	}{
		"state":        {set("state", "another"), fault.Forbidden, "state: the browser brought the answer to another question"},
		"issuer":       {set("iss", "https://bank.example.com"), fault.Forbidden, "https://bank.example.com"},
		"no issuer":    {set("iss", ""), fault.Forbidden, "iss: "},
		"refusal":      {set("error", "access_denied"), fault.Forbidden, "refuses: access_denied"},
		"odd refusal":  {set("error", "\x1b[2J"), fault.Forbidden, "refuses: no reason is given"},
		"no code":      {set("code", ""), fault.Forbidden, "brought no code"},
		"other code":   {set("code", "made up"), fault.Forbidden, "refuses: invalid_grant"},
		"no JSON":      {tokens(200, "<html>"), fault.Forbidden, "no token that can be sent"},
		"no token":     {tokens(200, `{"token_type":"bearer"}`), fault.Forbidden, "no token that can be sent"},
		"broken token": {tokens(200, `{"access_token":"a\r\nb","token_type":"bearer"}`), fault.Forbidden, "no token that can be sent"},
		"other token":  {tokens(200, `{"access_token":"abc","token_type":"mac"}`), fault.Forbidden, "not a bearer token"},
		"down":         {tokens(503, "x"), fault.ToolUnavailable, "answers 503"},
		"redirect":     {tokens(307, ""), fault.Forbidden, "refuses: status 307"},
		"huge":         {tokens(200, strings.Repeat(" ", 2<<20)), fault.ToolUnavailable, "more than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t)
			c.change(p.web)
			_, err := p.login(p.server())
			require.True(t, fault.Has(err, c.code), "%v", err)
			require.ErrorContains(t, err, c.text)
			assert.Empty(t, p.ID("notes"))
			assert.NoFileExists(t, filepath.Join(p.dir, "notes.json"))
		})
	}
}

// Forms are not sent on, and documents are not read elsewhere.
func TestRedirects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, query string
		elsewhere   bool
		want        fault.Code // "" when it works
	}{
		"form to another server":     {"/token", "", true, fault.Forbidden},
		"form to the same server":    {"/token", "?again", false, fault.Forbidden},
		"question to another server": {"/mcp", "", true, ""}, // it is no answer; the well-known URLs have one
		"document of another server": {"/.well-known/oauth-protected-resource/mcp", "", true, ""},
		"document of the same":       {"/.well-known/oauth-protected-resource/mcp", "?again", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t)
			var stolen, again atomic.Int32
			thief := oauthtest.New(t)
			thief.Intercept = func(http.ResponseWriter, *http.Request) bool {
				stolen.Add(1)
				return false
			}
			p.web.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != c.path || r.Header.Get("Authorization") != "" {
					return false
				}
				if r.URL.RawQuery != "" {
					again.Add(1)
					return false
				}
				to := p.web.URL
				if c.elsewhere {
					to = thief.URL
				}
				http.Redirect(w, r, to+c.path+c.query, http.StatusTemporaryRedirect)
				return true
			}
			_, err := p.login(p.server())
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.True(t, fault.Has(err, c.want), "%v", err)
				assert.Zero(t, again.Load())
			}
			assert.Zero(t, stolen.Load())
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	impatient := oauth.New(oauth.Config{Dir: p.dir, Wait: 10 * time.Millisecond})
	_, err := impatient.Login(t.Context(), p.server(), func(string) {})
	require.True(t, fault.Has(err, fault.Timeout), "%v", err)
	require.ErrorContains(t, err, "nobody has logged in within 10ms")

	ctx, cancel := context.WithCancel(t.Context())
	_, err = p.Login(ctx, p.server(), func(string) { cancel() })
	require.ErrorIs(t, err, context.Canceled)

	gone := oauth.Server{Name: "gone", URL: "http://127.0.0.1:1/mcp"}
	_, err = p.Login(t.Context(), gone, func(string) { assert.Fail(t, "nobody is to be asked") })
	require.True(t, fault.Has(err, fault.ToolUnavailable), "%v", err)
	require.ErrorContains(t, err, "http://127.0.0.1:1 cannot be reached")
}

func TestServersWithoutLogin(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	for _, status := range []int{http.StatusOK, http.StatusUnauthorized} {
		web := oauthtest.New(t)
		web.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/mcp" {
				w.WriteHeader(status)
			} else {
				http.NotFound(w, r)
			}
			return true
		}
		_, err := p.Login(t.Context(), oauth.Server{Name: "open", URL: web.URL + "/mcp"}, func(string) { assert.Fail(t, "nobody is to be asked") })
		require.True(t, fault.Has(err, fault.NotFound), "%v", err)
	}
	for _, s := range []oauth.Server{
		{Name: "../up", URL: p.web.URL}, {Name: "", URL: p.web.URL}, {Name: "plain", URL: "http://mcp.example.com/mcp"}, {Name: "no", URL: "mcp"},
	} {
		_, err := p.Login(t.Context(), s, func(string) { assert.Fail(t, "nobody is to be asked") })
		require.True(t, fault.Has(err, fault.ValidationError), "%v", err)
	}
}

func TestDamagedFile(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	_, err := p.login(p.server())
	require.NoError(t, err)
	file := filepath.Join(p.dir, "notes.json")
	for _, content := range []string{"", "{", "null", `{"access_token":"x"}`} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err = p.Source(p.server()).Token(t.Context())
		require.ErrorIs(t, err, oauth.ErrLogin, "%q", content)
	}
	revoked, err := p.Logout(t.Context(), p.server())
	require.NoError(t, err)
	assert.False(t, revoked)
	assert.NoFileExists(t, file)
	_, err = p.Logout(t.Context(), oauth.Server{Name: "../notes"})
	require.True(t, fault.Has(err, fault.NotFound), "%v", err)
}

// An authorization server that is down for a while ends no login.
func TestRenewalLater(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.web.Life = time.Hour
	_, err := p.login(p.server())
	require.NoError(t, err)
	age(t, filepath.Join(p.dir, "notes.json"), false)
	var down atomic.Bool
	down.Store(true)
	p.web.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if down.Load() && r.URL.Path == "/token" {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		return false
	}
	source := p.Source(p.server())
	token, err := source.Token(t.Context())
	require.NoError(t, err, "it is still good")
	assert.Positive(t, p.web.Good())
	age(t, filepath.Join(p.dir, "notes.json"), true)
	_, err = source.Token(t.Context())
	require.True(t, fault.Has(err, fault.ToolUnavailable), "%v", err)
	_, err = source.Renew(t.Context(), token)
	require.True(t, fault.Has(err, fault.ToolUnavailable), "%v", err)
	require.NotErrorIs(t, err, oauth.ErrLogin)
	down.Store(false)
	another, err := source.Token(t.Context())
	require.NoError(t, err)
	assert.NotEqual(t, token, another)

	other := p.server()
	other.URL = p.web.URL + "/other"
	token, err = p.Source(other).Token(t.Context())
	require.NoError(t, err)
	assert.Empty(t, token)
	other = p.server()
	other.ClientID = "ours"
	token, err = p.Source(other).Token(t.Context())
	require.NoError(t, err)
	assert.Empty(t, token, "another client has another login")
}

// A caller that does not wait for a renewal does not stop it: its tokens are stored.
func TestRenewalIsKeptWithoutItsCaller(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	_, err := p.login(p.server())
	require.NoError(t, err)
	source := p.Source(p.server())
	token, err := source.Token(t.Context())
	require.NoError(t, err)
	asked, answer := make(chan struct{}), make(chan struct{})
	p.web.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			close(asked)
			<-answer
		}
		return false
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err = source.Renew(ctx, token)
	require.ErrorIs(t, err, context.Canceled)
	close(answer)
	another, err := source.Renew(t.Context(), token) // it waits for its turn
	require.NoError(t, err)
	assert.NotEqual(t, token, another)
	assert.Equal(t, 1, p.web.Count("POST /token refresh_token"))
}

// The secret of a definition goes to no authorization server but the one that the definition names.
func TestIssuerOfADefinition(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.web.Clients["ours"] = "the secret of the client"
	s := p.server()
	s.ClientID, s.ClientSecret, s.Issuer = "ours", p.web.Clients["ours"], "https://login.example.com"
	_, err := p.Login(t.Context(), s, func(string) { assert.Fail(t, "nobody is to be asked") })
	require.True(t, fault.Has(err, fault.Forbidden), "%v", err)
	require.ErrorContains(t, err, "authorization_servers: the server names another one than its definition")

	s.Issuer = p.web.URL + "/"
	_, err = p.login(s)
	require.NoError(t, err)
	token, err := p.Source(s).Token(t.Context())
	require.NoError(t, err)
	assert.NotEmpty(t, token)
	s.Issuer = "https://login.example.com"
	token, err = p.Source(s).Token(t.Context())
	require.NoError(t, err)
	assert.Empty(t, token, "it is of another authorization server")
}
