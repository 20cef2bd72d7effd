package registry_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/oauth"
	"github.com/orch-dev/orch/mcp/oauthtest"
	"github.com/orch-dev/orch/mcp/registry"
)

// guarded makes a world with a server that demands a login.
func guarded(t *testing.T, change ...func(*registry.Config)) (*world, *oauthtest.Server) {
	t.Helper()
	web := oauthtest.New(t)
	w := newWorld(t, change...)
	w.put("notes.json", `{"schemaVersion":"1.0.0","name":"notes","transport":"http","baseURL":"`+web.URL+`/mcp","capabilities":["tools","whoami"],"timeout":"10s"}`)
	return w, web
}

// browse returns a person at a browser who approves.
func browse(t *testing.T) func(string) {
	t.Helper()
	return func(address string) {
		go func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
			if !assert.NoError(t, err) {
				return
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			if resp, err := client.Do(req); assert.NoError(t, err) {
				assert.NoError(t, resp.Body.Close())
			}
		}()
	}
}

func (w *world) login(name string) {
	w.t.Helper()
	_, err := w.Login(w.t.Context(), name, browse(w.t))
	require.NoError(w.t, err)
}

// tokenFile returns the path of the only file that may contain tokens.
func (w *world) tokenFile(name string) string {
	return filepath.Join(w.home, ".orch", "state", "mcp-oauth", name+".json")
}

// untold checks that no output contains secrets.
func (w *world) untold(web *oauthtest.Server, texts ...string) {
	w.t.Helper()
	secrets := web.Secrets()
	require.NotEmpty(w.t, secrets)
	texts = append(texts, w.log.String())
	for _, dir := range []string{w.home, w.project} {
		require.NoError(w.t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || path == w.tokenFile("notes") {
				return err
			}
			content, err := os.ReadFile(path)
			texts = append(texts, string(content))
			return err
		}))
	}
	for _, secret := range secrets {
		for _, text := range texts {
			assert.NotContains(w.t, text, secret)
		}
	}
}

func TestServerThatDemandsALogin(t *testing.T) {
	t.Parallel()
	w, web := guarded(t, hot)
	w.start()
	const demand = "the server demands a login: orch mcp login notes"
	assert.Equal(t, demand, w.get("notes").LastError)
	assert.Equal(t, registry.Degraded, w.get("notes").Status)
	assert.Zero(t, w.get("notes").Breaker.Failures, "it is no failure that counts")
	report, err := w.Test(t.Context(), "notes")
	require.ErrorIs(t, err, registry.ErrHandshakeFailed)
	assert.Equal(t, demand, report.LastError)
	assert.Contains(t, fault.From(err).Hint, "orch mcp login notes")

	login, err := w.Login(t.Context(), "notes", browse(t))
	require.NoError(t, err)
	assert.Equal(t, web.URL, login.Issuer)
	assert.Equal(t, []string{"notes"}, login.Scopes)
	assert.True(t, login.Renewable)
	w.become("notes", registry.Ready) // long before the next try
	assert.Equal(t, "Ada", w.call("notes", "whoami"))

	info, err := os.Stat(w.tokenFile("notes"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(filepath.Dir(w.tokenFile("notes")))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	revoked, err := w.Logout(t.Context(), "notes")
	require.NoError(t, err)
	assert.True(t, revoked)
	assert.Zero(t, web.Good())
	assert.NoFileExists(t, w.tokenFile("notes"))
	w.become("notes", registry.Degraded)
	require.Eventually(t, func() bool { return w.get("notes").LastError == demand }, maxDebounce, 10*time.Millisecond)
	_, err = w.Logout(t.Context(), "notes")
	require.True(t, fault.Has(err, fault.NotFound), "%v", err)
	w.untold(web, report.LastError)
}

func TestReasonOfAClosedLink(t *testing.T) {
	t.Parallel()
	t.Run("a login is the whole reason, and another generation does not help", func(t *testing.T) {
		t.Parallel()
		link := &registry.Dead{Reason: fault.Wrap(fault.Unauthorized, oauth.ErrLogin, "log in")}
		text, err := link.Dial(t.Context())
		require.ErrorIs(t, err, oauth.ErrLogin)
		assert.Equal(t, "log in", text)
		assert.Equal(t, 1, link.Opened)
	})
	t.Run("another one is told with what the protocol says", func(t *testing.T) {
		t.Parallel()
		link := &registry.Dead{Reason: errors.New("it has ended")}
		text, err := link.Dial(t.Context())
		require.ErrorIs(t, err, io.EOF)
		assert.Regexp(t, `^it has ended\n.*EOF`, text)
		assert.Equal(t, 2, link.Opened)
	})
}

func TestLoginIsRenewed(t *testing.T) {
	t.Parallel()
	t.Run("after a refusal, in the middle of use", func(t *testing.T) {
		t.Parallel()
		w, web := guarded(t)
		w.login("notes")
		w.start()
		assert.Equal(t, "Ada", w.call("notes", "whoami"))
		before, err := os.ReadFile(w.tokenFile("notes"))
		require.NoError(t, err)
		web.Expire()
		assert.Equal(t, "Ada", w.call("notes", "whoami"))
		after, err := os.ReadFile(w.tokenFile("notes"))
		require.NoError(t, err)
		assert.NotEqual(t, string(before), string(after))
		assert.Equal(t, 1, web.Count("POST /token refresh_token"))
		w.untold(web)
	})
	t.Run("before it ends", func(t *testing.T) {
		t.Parallel()
		w, web := guarded(t)
		web.Life = time.Hour
		w.login("notes")
		content, err := os.ReadFile(w.tokenFile("notes"))
		require.NoError(t, err)
		content = regexp.MustCompile(`("renew_at": ")[^"]*`).ReplaceAll(content, []byte("${1}2020-01-01T00:00:00Z"))
		require.NoError(t, os.WriteFile(w.tokenFile("notes"), content, 0o600))
		w.start()
		assert.Equal(t, registry.Ready, w.get("notes").Status)
		assert.Equal(t, 1, web.Count("POST /token refresh_token"))
		w.untold(web)
	})
	t.Run("by many at once", func(t *testing.T) {
		t.Parallel()
		w, web := guarded(t)
		w.login("notes")
		others := []*registry.Registry{w.Registry, w.another(), w.another()}
		for _, r := range others {
			_, err := r.Init(t.Context())
			require.NoError(t, err)
		}
		web.Expire()
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				_, err := others[i%len(others)].Call(t.Context(), registry.CallRequest{Server: "notes", Tool: "whoami"})
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Equal(t, 1, web.Count("POST /token refresh_token"), "the refresh token is good once")
		w.untold(web)
	})
}

func TestLoginThatIsRevoked(t *testing.T) {
	t.Parallel()
	w, web := guarded(t)
	w.login("notes")
	w.start()
	assert.Equal(t, "Ada", w.call("notes", "whoami"))
	web.Revoke()
	_, err := w.Call(t.Context(), registry.CallRequest{Server: "notes", Tool: "whoami"})
	require.True(t, fault.Has(err, fault.ToolUnavailable), "%v", err)
	require.ErrorContains(t, err, "log in again: orch mcp login notes")
	w.become("notes", registry.Degraded)
	assert.Equal(t, "log in again: orch mcp login notes", w.get("notes").LastError)
	refreshed := web.Count("POST /token refresh_token")
	_, err = w.Test(t.Context(), "notes")
	require.ErrorContains(t, err, "log in again: orch mcp login notes")
	assert.Equal(t, refreshed, web.Count("POST /token refresh_token"), "a dead token is not sent again")
	w.untold(web, err.Error())
}

func TestLoginIsForOneServer(t *testing.T) {
	t.Parallel()
	w, web := guarded(t)
	w.login("notes")
	var mu sync.Mutex
	var stolen []string
	thief := oauthtest.New(t)
	thief.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		stolen = append(stolen, r.Header.Get("Authorization"))
		rw.WriteHeader(http.StatusUnauthorized)
		return true
	}
	w.put("notes.json", `{"schemaVersion":"1.0.0","name":"notes","transport":"http","baseURL":"`+thief.URL+`/mcp","capabilities":["tools"]}`)
	w.start()
	assert.Equal(t, "the server demands a login: orch mcp login notes", w.get("notes").LastError)

	web.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		http.Redirect(rw, r, thief.URL+"/mcp", http.StatusTemporaryRedirect)
		return true
	}
	w.put("notes.json", `{"schemaVersion":"1.0.0","name":"notes","transport":"http","baseURL":"`+web.URL+`/mcp","capabilities":["tools"]}`)
	_, err := w.Reload(t.Context())
	require.NoError(t, err)
	mu.Lock()
	defer mu.Unlock()
	require.NotEmpty(t, stolen)
	assert.Empty(t, strings.Join(stolen, ""))
}

// A server that repeats a token in its errors does not bring it into ours.
func TestTokenThatAServerRepeatsIsHidden(t *testing.T) {
	t.Parallel()
	w, web := guarded(t)
	w.login("notes")
	web.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		rw.Header().Set("Content-Type", "application/json")
		http.Error(rw, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"bad `+r.Header.Get("Authorization")+`"}}`, http.StatusBadRequest)
		return true
	}
	w.start()
	assert.Contains(t, w.get("notes").LastError, "***")
	_, err := w.Test(t.Context(), "notes")
	require.Error(t, err)
	w.untold(web, w.get("notes").LastError, err.Error())
}

func TestClientOfADefinition(t *testing.T) {
	t.Parallel()
	w, web := guarded(t)
	web.Clients["ours"] = "the secret of the client"
	w.env["CLIENT_SECRET"] = web.Clients["ours"]
	w.put("notes.json", `{"schemaVersion":"1.0.0","name":"notes","transport":"http","baseURL":"`+web.URL+`/mcp","capabilities":["tools"],
		"oauth":{"clientId":"ours","clientSecret":"${CLIENT_SECRET}","scopes":["notes","more"]}}`)
	w.login("notes")
	content, err := os.ReadFile(w.tokenFile("notes"))
	require.NoError(t, err)
	assert.NotContains(t, string(content), web.Clients["ours"])
	assert.Zero(t, web.Count("POST /register"))
	w.start()
	web.Expire()
	assert.Equal(t, "Ada", w.call("notes", "whoami"))
	assert.Equal(t, "${CLIENT_SECRET}", w.get("notes").Config.OAuth.ClientSecret)
	revoked, err := w.Logout(t.Context(), "notes")
	require.NoError(t, err)
	assert.True(t, revoked)
}

func TestLoginWithoutUse(t *testing.T) {
	t.Parallel()
	w, web := guarded(t)
	w.define("child", "good")
	w.put("own.json", `{"schemaVersion":"1.0.0","name":"own","transport":"http","baseURL":"`+web.URL+`/mcp","bearer":"mine","capabilities":["tools"]}`)
	for name, want := range map[string]fault.Code{"child": fault.ValidationError, "own": fault.ValidationError, "nobody": fault.NotFound} {
		_, err := w.Login(t.Context(), name, func(string) { assert.Fail(t, "nobody is to be asked") })
		require.True(t, fault.Has(err, want), "%s: %v", name, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := w.Login(ctx, "notes", func(string) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}

func TestErrorsOfALoginHideTheSecretsOfItsDefinition(t *testing.T) {
	t.Parallel()
	w, web := guarded(t)
	w.env["NOTES_KEY"] = "a-path-that-nobody-knows"
	web.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, w.env["NOTES_KEY"]) && r.Method == http.MethodGet {
			rw.WriteHeader(http.StatusBadGateway)
			return true
		}
		return false
	}
	w.put("notes.json", `{"schemaVersion":"1.0.0","name":"notes","transport":"http","baseURL":"`+web.URL+`/${NOTES_KEY}","capabilities":["tools"]}`)
	_, err := w.Login(t.Context(), "notes", browse(t))
	require.True(t, fault.Has(err, fault.ToolUnavailable), "%v", err)
	require.ErrorContains(t, err, "/***")
	assert.NotContains(t, err.Error(), w.env["NOTES_KEY"])
}
