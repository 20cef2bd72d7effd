package realtime_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/realtime"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

func set(data any) firebase.Write { return firebase.Write{Operation: firebase.Set, Data: data} }

// Responses of the server, as the names of the S3 rules (S3-025, S3-035).
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status      int
		body        string
		read, write string // the reasons
	}{
		"rules":            {401, `{"error":"Permission denied"}`, refusal.PermissionDenied, refusal.PermissionDenied},
		"expired":          {401, `{"error":"Auth token ` + token + ` is expired"}`, refusal.PermissionDenied, refusal.PermissionDenied},
		"forbidden":        {403, `<html>`, refusal.PermissionDenied, refusal.PermissionDenied},
		"too many":         {429, `{"error":"slow down, hunter2%2F%2Bsecret"}`, refusal.QuotaExceeded, refusal.QuotaExceeded},
		"unpaid":           {402, `{"error":"Quota has been exceeded for this project"}`, refusal.QuotaExceeded, refusal.QuotaExceeded},
		"no such database": {404, `{"error":"404 Not Found"}`, refusal.ConnectionError, refusal.ConnectionError},
		"broken":           {500, `{"error":"Internal server error."}`, refusal.ConnectionError, refusal.ConnectionError},
		"away":             {503, ``, refusal.ConnectionError, refusal.ConnectionError},
		"changed":          {412, `{"old":1}`, refusal.Conflict, refusal.Conflict},
		"no index":         {400, `{"error":"Index not defined, add \".indexOn\""}`, refusal.ValidationError, refusal.ValidationError},
		"path":             {400, `{"error":"Invalid path: Invalid token in path"}`, refusal.InvalidPath, refusal.InvalidPath},
		"too large":        {400, `{"error":"Data to write exceeds the maximum size that can be modified with a single request."}`, refusal.SizeLimitExceeded, refusal.SizeLimitExceeded},
		"too large a body": {413, ``, refusal.SizeLimitExceeded, refusal.SizeLimitExceeded},
		"strange redirect": {301, ``, refusal.ConnectionError, refusal.ConnectionError},
		"no JSON":          {200, `<html>hunter2`, refusal.ConnectionError, ""},
		"success":          {200, `{"a":1}`, "", ""},
		"half of it":       {200, `{"a":`, refusal.ConnectionError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := at(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { reply(t, w, test.status, test.body) }))
			_, read := c.Read(t.Context(), "w", firebase.Query{})
			_, write := c.Write(t.Context(), "w", set(1.0))
			for err, want := range map[*error]string{&read: test.read, &write: test.write} {
				if want == "" {
					require.NoError(t, *err)
					continue
				}
				refused(t, *err, want)
			}
			if test.status >= 400 {
				_, err := c.Watch(t.Context(), "w", firebase.Value)
				refused(t, err, test.read)
			}
		})
	}
}

// A response from which a proxy removed the version must not make a transaction unconditional.
func TestAnswerWithoutVersion(t *testing.T) {
	t.Parallel()
	c := at(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, `1`)
		assert.NoError(t, err)
	}))
	_, err := c.Read(t.Context(), "w", firebase.Query{})
	refused(t, err, refusal.ConnectionError)
	_, err = c.Write(t.Context(), "w", firebase.Write{Operation: firebase.Push, Data: 1.0})
	refused(t, err, refusal.ConnectionError)
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	hang := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server notices a closed connection only after it has read the request
		<-r.Context().Done()
	})
	for _, url := range []string{closed, hang} {
		c := at(t, url, func(cfg *realtime.Config) { cfg.Call = 100 * time.Millisecond })
		_, err := c.Read(t.Context(), "w", firebase.Query{})
		refused(t, err, refusal.ConnectionError)
		_, err = c.Write(t.Context(), "w", set(1.0))
		refused(t, err, refusal.ConnectionError)
		_, err = c.Watch(t.Context(), "w", firebase.Value)
		refused(t, err, refusal.ConnectionError)
	}
	c := at(t, hang)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = c.Read(ctx, "w", firebase.Query{})
	assert.Equal(t, fault.Timeout, fault.CodeOf(err))
	_, err = c.Watch(ctx, "w", firebase.Value)
	assert.Equal(t, fault.Timeout, fault.CodeOf(err))
}

// Data beyond the limit is not stored, in any form.
func TestHugeAnswers(t *testing.T) {
	t.Parallel()
	const limit = 4096
	letters := strings.Repeat("s", limit)
	for name, text := range map[string]string{
		"answer": `"` + letters + `"`,
		"event":  put("/", `"`+letters+`"`),
		"lines":  "event: put\n" + strings.Repeat("data: ssssssss\n", limit/4),
		"growth": put("/", `{"a":"`+letters[:limit/2]+`"}`) + put("/b", `"`+letters[:limit/2+1]+`"`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if name == "answer" {
					reply(t, w, http.StatusOK, text)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, text) // the client disconnects at the limit
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			c := at(t, url, func(cfg *realtime.Config) { cfg.MaxAnswer = limit })
			switch name {
			case "answer":
				_, err := c.Read(t.Context(), "w", firebase.Query{})
				refused(t, err, refusal.QuotaExceeded)
				assert.Contains(t, fault.From(err).Hint, "a query with a limit")
			case "growth":
				listen(t, c, firebase.ChildChanged).ends(refusal.QuotaExceeded)
			default:
				_, err := c.Watch(t.Context(), "w", firebase.Value)
				refused(t, err, refusal.QuotaExceeded)
			}
		})
	}
}

// seen is a request that a server received.
type seen struct {
	method, path, query, authorization, body string
}

// recorder returns a server that records requests and answers with a redirect or null.
func recorder(t *testing.T, into chan<- seen, redirect func(*http.Request) string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		into <- seen{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Authorization"), string(body)}
		if redirect != nil {
			w.Header().Set("Location", redirect(r))
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		if r.Header.Get("Accept") == "text/event-stream" {
			say(t, w, put("/", "null"))
			<-r.Context().Done()
			return
		}
		reply(t, w, http.StatusOK, `null`)
	}))
	t.Cleanup(s.Close)
	return s
}

// A credential is sent in the header if the protocol supports that, and the URL matches the path.
func TestRequests(t *testing.T) {
	t.Parallel()
	const path = "a b/ö?x=1&y%2F/+"
	const escaped = "/a%20b/%C3%B6%3Fx=1&y%252F/+.json"
	for given, want := range map[string]struct{ query, authorization string }{
		"":               {"ns=db", ""},
		token:            {"auth=hunter2%2F%2Bsecret&ns=db", ""},
		"Bearer " + "o1": {"ns=db", "Bearer o1"},
	} {
		got := make(chan seen, 1)
		url := recorder(t, got, nil).URL + "/?ns=db"
		c := at(t, url, func(cfg *realtime.Config) { cfg.Token = given })
		_, err := c.Read(t.Context(), path, firebase.Query{})
		require.NoError(t, err)
		assert.Equal(t, seen{"GET", escaped, want.query, want.authorization, ""}, <-got)
		for op, method := range map[firebase.Operation]string{firebase.Set: "PUT", firebase.Update: "PATCH"} {
			_, err = c.Write(t.Context(), "", firebase.Write{Operation: op, Data: map[string]any{"a": "<"}})
			require.NoError(t, err)
			r := <-got
			assert.Equal(t, method, r.method)
			assert.Equal(t, "/.json", r.path)
			assert.Contains(t, r.query, "print=silent")
			assert.JSONEq(t, `{"a":"<"}`, r.body)
		}
		_, err = c.Write(t.Context(), path, firebase.Write{Operation: firebase.Delete, If: "v1"})
		require.NoError(t, err)
		assert.Equal(t, "DELETE", (<-got).method)
	}
}

// A database may be on another server. Redirects are followed, with credential, method and body, to permitted servers
// only.
func TestRedirects(t *testing.T) {
	t.Parallel()
	first, second := make(chan seen, 100), make(chan seen, 100)
	home := recorder(t, second, nil)
	url := recorder(t, first, func(r *http.Request) string { return home.URL + r.URL.RequestURI() }).URL
	listed := func(cfg *realtime.Config) { cfg.Net.Hosts = []string{strings.TrimPrefix(home.URL, "http://")} }

	c := at(t, url, listed)
	_, err := c.Write(t.Context(), "w", set("text"))
	require.NoError(t, err)
	assert.Equal(t, seen{"PUT", "/w.json", "auth=hunter2%2F%2Bsecret&print=silent", "", `"text"`}, <-second)
	_, err = c.Read(t.Context(), "w", firebase.Query{})
	require.NoError(t, err)
	<-second
	assert.Nil(t, listen(t, c, firebase.Value).initial)
	assert.Equal(t, "/w.json", (<-second).path)
	c = at(t, url, listed, func(cfg *realtime.Config) { cfg.Token = "Bearer o1" })
	_, err = c.Read(t.Context(), "w", firebase.Query{})
	require.NoError(t, err)
	assert.Equal(t, "Bearer o1", (<-second).authorization)

	c = at(t, url)
	_, err = c.Write(t.Context(), "w", set("text"))
	refused(t, err, refusal.ConnectionError)
	require.ErrorContains(t, err, "not trusted with the credential")
	_, err = c.Watch(t.Context(), "w", firebase.Value)
	refused(t, err, refusal.ConnectionError)
	assert.Empty(t, second, "the other server saw nothing")

	for _, to := range []string{"", "file:///etc/passwd", "http://a:hunter2@127.0.0.1/", "http://169.254.169.254/", "::"} {
		c := at(t, recorder(t, first, func(*http.Request) string { return to }).URL)
		_, err := c.Read(t.Context(), "w", firebase.Query{})
		refused(t, err, refusal.ConnectionError)
	}
}

// Google moves databases only between its own servers.
func TestRedirectsOfGoogle(t *testing.T) {
	t.Parallel()
	const home = "https://p-default-rtdb.firebaseio.com"
	for to, want := range map[string]bool{
		home + "/w.json": true, "https://s-usc1c-nss-2.firebaseio.com/w.json?ns=p": true, "https://p.europe-west1.firebasedatabase.app/": true,
		"http://s-usc1c-nss-2.firebaseio.com/": false, "https://s.firebaseio.com:8443/": false, "https://firebaseio.com.evil.example/": false,
		"https://evilfirebaseio.com/": false, "https://listed.example/": true, "http://listed.example/": false, "https://10.1.2.3/": true,
	} {
		c := at(t, home, func(cfg *realtime.Config) {
			cfg.Net.Hosts = []string{"listed.example"}
			cfg.Net.Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		})
		assert.Equal(t, want, c.Trusts(to), to)
	}
	assert.False(t, at(t, "https://db.example").Trusts("https://p.firebaseio.com/"))
}

// Two servers that redirect to each other receive a request only a few times.
func TestRedirectsInACircle(t *testing.T) {
	t.Parallel()
	var a, b string
	var requests atomic.Int64
	handle := func(to *string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			http.Redirect(w, r, *to+"/w.json", http.StatusTemporaryRedirect)
		}
	}
	a, b = serve(t, handle(&b)), serve(t, handle(&a))
	c := at(t, a, func(cfg *realtime.Config) { cfg.Net.Hosts = []string{strings.TrimPrefix(b, "http://")} })
	_, err := c.Read(t.Context(), "w", firebase.Query{})
	refused(t, err, refusal.ConnectionError)
	assert.LessOrEqual(t, requests.Load(), int64(10))
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]realtime.Config{
		"firebase_realtime_url":   {URL: "ftp://h"},
		"firebase_realtime_token": {URL: "http://h", Token: `{"type":"hunter2"}`},
	} {
		_, err := realtime.Open(cfg)
		require.Error(t, err)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
		assert.Equal(t, field, fault.From(err).Field)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

// A conditional update does not change other data, priorities included, and the server evaluates its server values.
func TestConditionalUpdate(t *testing.T) {
	t.Parallel()
	c := open(t)
	var data any
	require.NoError(t, json.Unmarshal([]byte(`{"a":{".value":1,".priority":2},"b":{"x":1,".priority":1},"n":5,"l":["p","q"]}`), &data))
	_, err := c.Write(t.Context(), "w", set(data))
	require.NoError(t, err)
	s, err := c.Read(t.Context(), "w", firebase.Query{})
	require.NoError(t, err)
	_, err = c.Write(t.Context(), "w", firebase.Write{Operation: firebase.Update, If: s.Version, Data: map[string]any{
		"b/y": 2.0, "n": map[string]any{".sv": map[string]any{"increment": 1.0}}, "l/0": nil, "l/1/deep": true, "/new": "x",
	}})
	require.NoError(t, err)
	s, err = c.Read(t.Context(), "w", firebase.Query{OrderBy: "$priority"})
	require.NoError(t, err)
	got, err := json.Marshal(s.Children)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"Key":"l","Data":[null,{"deep":true}]},{"Key":"n","Data":6},{"Key":"new","Data":"x"},
		{"Key":"b","Data":{"x":1,"y":2}},{"Key":"a","Data":1}]`, string(got))
}
