package rest_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
)

// logIn logs in as an identity, and returns the header Cookie.
func (s *site) logIn(name string, role rest.Role) string {
	s.t.Helper()
	code, err := s.logins.NewCode(rest.Login{Name: name, Role: role})
	require.NoError(s.t, err)
	got := s.do(http.MethodGet, "/ui/login?code="+url.QueryEscape(code), "")
	require.Equal(s.t, http.StatusSeeOther, got.Status, got.Body)
	require.Equal(s.t, "/ui/", got.Header.Get("Location"))
	cookie, err := http.ParseSetCookie(got.Header.Get("Set-Cookie"))
	require.NoError(s.t, err)
	assert.Equal(s.t, "orch_session", cookie.Name)
	assert.True(s.t, cookie.HttpOnly)
	assert.Equal(s.t, http.SameSiteStrictMode, cookie.SameSite)
	assert.Equal(s.t, "/", cookie.Path)
	assert.Equal(s.t, 12*60*60, cookie.MaxAge)
	return cookie.Name + "=" + cookie.Value
}

// A link logs in once, within a minute. The identity is that of the link.
func TestLogIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	code, err := s.logins.NewCode(rest.Login{Name: "user:ada", Role: rest.Operator})
	require.NoError(t, err)
	link := "/ui/login?code=" + code
	assert.NotEqual(t, http.StatusSeeOther, s.do(http.MethodHead, link, "").Status)
	require.Equal(t, http.StatusSeeOther, s.do(http.MethodGet, link, "").Status)
	for _, stale := range []string{link, "/ui/login", "/ui/login?code=", "/ui/login?code=zzz"} {
		got := s.do(http.MethodGet, stale, "")
		assert.Equal(t, http.StatusGone, got.Status, stale)
		assert.Contains(t, got.Body, "orch ui")
		assert.Empty(t, got.Header.Get("Set-Cookie"))
	}
	code, err = s.logins.NewCode(rest.Login{Name: "user:ada", Role: rest.Operator})
	require.NoError(t, err)
	s.now = s.now.Add(rest.CodeLife)
	assert.Equal(t, http.StatusGone, s.do(http.MethodGet, "/ui/login?code="+code, "").Status)

	cookie := s.logIn("user:vic", rest.Viewer)
	status := s.do(http.MethodGet, rest.Prefix+"/status", "", "Cookie", cookie).object(t)
	assert.Equal(t, []any{"user:vic", "viewer"}, []any{status["identity"], status["role"]})
	s.now = s.now.Add(rest.LoginLife)
	assert.Equal(t, http.StatusUnauthorized, s.do(http.MethodGet, rest.Prefix+"/status", "", "Cookie", cookie).Status)
	assert.Equal(t, http.StatusUnauthorized, s.do(http.MethodGet, rest.Prefix+"/status", "", "Cookie", "orch_session=zzz").Status)
}

// Open links are bounded.
func TestLinksAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var err error
	for range 101 {
		_, err = s.logins.NewCode(rest.Login{Name: "user:ada", Role: rest.Operator})
	}
	assert.True(t, fault.Has(err, fault.QuotaExceeded))
	s.now = s.now.Add(time.Minute)
	_, err = s.logins.NewCode(rest.Login{Name: "user:ada", Role: rest.Operator})
	assert.NoError(t, err)
}

// A write with a cookie must come from the page of the node: other sites can make a browser send the cookie.
func TestCrossSiteWrites(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.logIn("user:ada", rest.Operator)
	path, own := rest.Prefix+"/tasks/"+string(adasTask)+"/cancel", s.web.URL
	for _, c := range []struct {
		name   string
		header []string
		status int
	}{
		{"page", []string{"Sec-Fetch-Site", "same-origin", "X-Orch-Request", "1"}, 200},
		{"page of an old browser", []string{"Origin", own, "X-Orch-Request", "1"}, 200},
		{"without the header", []string{"Sec-Fetch-Site", "same-origin"}, 403},
		{"header with another value", []string{"Sec-Fetch-Site", "same-origin", "X-Orch-Request", "yes"}, 403},
		{"neither site nor origin", []string{"X-Orch-Request", "1"}, 403},
		{"other site", []string{"Sec-Fetch-Site", "cross-site", "X-Orch-Request", "1"}, 403},
		{"other site with the own origin", []string{"Sec-Fetch-Site", "cross-site", "Origin", own, "X-Orch-Request", "1"}, 403},
		{"other port", []string{"Sec-Fetch-Site", "same-site", "X-Orch-Request", "1"}, 403},
		{"address bar", []string{"Sec-Fetch-Site", "none", "X-Orch-Request", "1"}, 403},
		{"foreign origin", []string{"Origin", "http://evil.example", "X-Orch-Request", "1"}, 403},
		{"foreign origin of a same-origin request", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://evil.example", "X-Orch-Request", "1"}, 403},
		{"null origin", []string{"Origin", "null", "X-Orch-Request", "1"}, 403},
		{"form", []string{"Sec-Fetch-Site", "same-origin", "X-Orch-Request", "1", "Content-Type", "text/plain"}, 415},
		{"rebinding", []string{"Sec-Fetch-Site", "same-origin", "X-Orch-Request", "1", "Host", "evil.example"}, 421},
	} {
		got := s.do(http.MethodPost, path, `{"reason":"x"}`, append(c.header, "Cookie", cookie)...)
		assert.Equal(t, c.status, got.Status, "%s: %s", c.name, got.Body)
	}
	got := s.do(http.MethodPost, path, "", "Cookie", cookie, "Authorization", "Bearer zzz", "Sec-Fetch-Site", "same-origin", "X-Orch-Request", "1")
	assert.Equal(t, http.StatusUnauthorized, got.Status, "a wrong token is not replaced by the cookie")
}

// Logging out ends the login at the node, and only the page can do it.
func TestLogOut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.logIn("user:ada", rest.Operator)
	assert.Equal(t, http.StatusForbidden, s.do(http.MethodPost, "/ui/logout", "", "Cookie", cookie).Status)
	assert.Equal(t, http.StatusMethodNotAllowed, s.do(http.MethodGet, "/ui/logout", "", "Cookie", cookie).Status)
	require.Equal(t, http.StatusOK, s.do(http.MethodGet, rest.Prefix+"/status", "", "Cookie", cookie).Status)
	stream := s.open(http.MethodGet, rest.Prefix+"/events", "", "Cookie", cookie)
	got := s.do(http.MethodPost, "/ui/logout", "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "X-Orch-Request", "1")
	require.Equal(t, http.StatusNoContent, got.Status)
	_, err := io.ReadAll(stream.Body) // returns when the stream has ended
	require.NoError(t, err)
	require.NoError(t, stream.Body.Close())
	assert.Contains(t, got.Header.Get("Set-Cookie"), "Max-Age=0")
	assert.Equal(t, http.StatusUnauthorized, s.do(http.MethodGet, rest.Prefix+"/status", "", "Cookie", cookie).Status)
}

// The files of the page have headers that protect them, and nothing outside of them can be read.
func TestFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct {
		path         string
		status       int
		kind, caches string
	}{
		{"/ui/", 200, "text/html; charset=utf-8", "no-cache"},
		{"/ui/tasks/TASK_1", 200, "text/html; charset=utf-8", "no-cache"},
		{"/ui/index.html", 200, "text/html; charset=utf-8", "no-cache"},
		{"/ui/logo.svg", 200, "image/svg+xml", "no-cache"},
		{"/ui/assets/app-3f2a9c1b.js", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		{"/ui/assets/missing.js", 404, "text/html; charset=utf-8", "no-store"},
		{"/ui/..%2f..%2fetc%2fpasswd.txt", 404, "text/html; charset=utf-8", "no-store"},
		{"/ui/%2fetc/passwd.txt", 404, "text/html; charset=utf-8", "no-store"},
		{"/ui/x%00.js", 404, "text/html; charset=utf-8", "no-store"},
		{`/ui/..\..\x.js`, 404, "text/html; charset=utf-8", "no-store"},
	} {
		got := s.do(http.MethodGet, c.path, "")
		require.Equal(t, c.status, got.Status, c.path)
		assert.Equal(t, c.kind, got.Header.Get("Content-Type"), c.path)
		assert.Equal(t, c.caches, got.Header.Get("Cache-Control"), c.path)
		assert.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
		assert.Equal(t, "no-referrer", got.Header.Get("Referrer-Policy"))
		policy := got.Header.Get("Content-Security-Policy")
		assert.True(t, strings.HasPrefix(policy, "default-src 'none'; script-src 'self';"), policy)
		assert.Contains(t, policy, "frame-ancestors 'none'")
		assert.NotContains(t, got.Body, "root:")
	}
	tag := s.do(http.MethodGet, "/ui/logo.svg", "").Header.Get("ETag")
	require.NotEmpty(t, tag)
	assert.Equal(t, http.StatusNotModified, s.do(http.MethodGet, "/ui/logo.svg", "", "If-None-Match", tag).Status)
	assert.Equal(t, http.StatusMisdirectedRequest, s.do(http.MethodGet, "/ui/", "", "Host", "evil.example").Status)
	assert.Equal(t, http.StatusMethodNotAllowed, s.do(http.MethodPost, "/ui/", "").Status)
}
