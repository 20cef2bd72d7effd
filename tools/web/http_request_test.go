package web_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type answer struct {
	StatusCode      int               `json:"status_code"`
	Headers         map[string]string `json:"headers"`
	Body            string            `json:"body"`
	BodyEncoding    string            `json:"body_encoding"`
	Truncated       bool              `json:"truncated"`
	RedirectRefused string            `json:"redirect_refused"`
}

func request(t *testing.T, env *tools.Env, args map[string]any) (answer, error) {
	t.Helper()
	return call[answer](t, tool(t, open(), "HTTP_REQUEST"), env, args)
}

// S0-111: every status is a result.
func TestRequestResults(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		w.Header().Add("X-Two", "a")
		w.Header().Add("X-Two", "b")
		w.WriteHeader(http.StatusServiceUnavailable)
		reply(t, w, "%s %s %s %s", r.Method, r.URL.Path, r.Header.Get("X-In"), body)
	})
	for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
		out, err := request(t, newEnv(), map[string]any{"url": url + "/p", "method": method, "headers": map[string]string{"x-in": "1"}, "body": "text"})
		require.NoError(t, err)
		assert.Equal(t, http.StatusServiceUnavailable, out.StatusCode)
		assert.Equal(t, method+" /p 1 text", out.Body)
		assert.Equal(t, "utf-8", out.BodyEncoding)
		assert.Equal(t, "a, b", out.Headers["X-Two"])
		assert.False(t, out.Truncated)
	}
}

// S0-110, S0-111, S0-114: each error by code and field, without what the call holds.
func TestRequestErrors(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) })
	for name, tc := range map[string]struct {
		args  map[string]any
		code  fault.Code
		field string
	}{
		"method":        {map[string]any{"url": slow, "method": "PATCH"}, fault.ValidationError, "method"},
		"timeout":       {map[string]any{"url": slow, "method": "GET", "timeout": 30}, fault.Timeout, "url"},
		"timeout 0":     {map[string]any{"url": slow, "method": "GET", "timeout": 0}, fault.ValidationError, "timeout"},
		"no URL":        {map[string]any{"url": "hunter2", "method": "GET"}, fault.InvalidFormat, "url"},
		"scheme":        {map[string]any{"url": "file:///etc/passwd", "method": "GET"}, fault.InvalidFormat, "url"},
		"password":      {map[string]any{"url": "http://a:hunter2@example.com", "method": "GET"}, fault.InvalidFormat, "url"},
		"private":       {map[string]any{"url": "http://127.0.0.1:1/hunter2", "method": "GET"}, fault.Forbidden, "url"},
		"metadata":      {map[string]any{"url": "http://169.254.169.254/latest", "method": "GET"}, fault.Forbidden, "url"},
		"private name":  {map[string]any{"url": "http://localhost/hunter2", "method": "GET"}, fault.Forbidden, "url"},
		"refused":       {map[string]any{"url": "http://127.0.0.2:2/hunter2", "method": "GET", "headers": map[string]string{"Authorization": "hunter2"}}, fault.NetworkError, "url"},
		"header":        {map[string]any{"url": slow, "method": "GET", "headers": map[string]string{"Host": "hunter2"}}, fault.ValidationError, "headers.Host"},
		"header type":   {map[string]any{"url": slow, "method": "GET", "headers": map[string]any{"X": 1}}, fault.ValidationError, "headers.X"},
		"header breaks": {map[string]any{"url": slow, "method": "GET", "headers": map[string]string{"X": "hunter2\r\nHost: a"}}, fault.ValidationError, "headers.X"},
		"body":          {map[string]any{"url": slow, "method": "POST", "body": strings.Repeat("x", 1<<20+1)}, fault.ValidationError, "body"},
	} {
		_, err := request(t, newEnv(), tc.args)
		e := fault.From(err)
		require.NotNil(t, e, name)
		assert.Equal(t, tc.code, e.Code, "%s: %v", name, err)
		assert.Equal(t, tc.field, e.Field, name)
		assert.NotContains(t, e.Error()+e.Hint, "hunter2", name)
	}
}

// S0-112: the intent of a call, before anything is sent.
func TestRequestIntent(t *testing.T) {
	t.Parallel()
	it, ok := tool(t, open(), "HTTP_REQUEST").(tools.Intender)
	require.True(t, ok)
	for method, effect := range map[string]tools.Effect{"GET": tools.Read, "PUT": tools.Idempotent, "DELETE": tools.Idempotent, "POST": tools.Write} {
		intent, err := it.Intent(t.Context(), newEnv(), json.RawMessage(`{"url": "https://API.example.com./a?token=s", "method": "`+method+`", "timeout": 1}`))
		require.NoError(t, err)
		assert.Equal(t, tools.Intent{
			Effect: effect, Reason: method, Targets: []tools.Target{{Kind: tools.Endpoint, Name: "https://api.example.com:443"}},
		}, intent)
	}
	for args, want := range map[string]fault.Code{
		`{"url": "http://169.254.169.254", "method": "GET"}`:                               fault.Forbidden,
		`{"url": "gopher://a", "method": "GET"}`:                                           fault.InvalidFormat,
		`{"url": "http://a.example", "method": "GET", "headers": {"Content-Length": "1"}}`: fault.ValidationError,
	} {
		_, err := it.Intent(t.Context(), newEnv(), json.RawMessage(args))
		assert.Equal(t, want, fault.CodeOf(err), args)
	}
}

func TestRequestKey(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { reply(t, w, "%v", r.Header["Idempotency-Key"]) })
	env := newEnv()
	for method, want := range map[string]string{"GET": "[]", "POST": "[" + env.Key + "]", "PUT": "[" + env.Key + "]", "DELETE": "[" + env.Key + "]"} {
		out, err := request(t, env, map[string]any{"url": url, "method": method})
		require.NoError(t, err)
		assert.Equal(t, want, out.Body, method)
	}
	out, err := request(t, env, map[string]any{"url": url, "method": "POST", "headers": map[string]string{"idempotency-key": "own"}})
	require.NoError(t, err)
	assert.Equal(t, "[own]", out.Body)
}

// The server learns the position of the call in the trace of its task, unless the call names one or belongs to none.
func TestRequestTrace(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		reply(t, w, "%v%v", r.Header["Traceparent"], r.Header["Tracestate"])
	})
	env := newEnv()
	env.Task, env.Step, env.Attempt = "TASK_01M8HX1ARCG7ZDBTAJP0BRM23R", "get", 1
	require.NotEmpty(t, env.TraceParent())
	out, err := request(t, env, map[string]any{"url": url, "method": "GET"})
	require.NoError(t, err)
	assert.Equal(t, "["+env.TraceParent()+"][]", out.Body)
	env.TraceState = "rojo=1"
	out, err = request(t, env, map[string]any{"url": url, "method": "GET"})
	require.NoError(t, err)
	assert.Equal(t, "["+env.TraceParent()+"][rojo=1]", out.Body)
	out, err = request(t, env, map[string]any{"url": url, "method": "GET", "headers": map[string]string{"traceparent": "own"}})
	require.NoError(t, err)
	assert.Equal(t, "[own][]", out.Body, "a tracestate belongs to its traceparent")
	env.Task = ""
	out, err = request(t, env, map[string]any{"url": url, "method": "GET"})
	require.NoError(t, err)
	assert.Equal(t, "[][]", out.Body)
}

// S0-114: a redirect to an endpoint that is not permitted is returned; a permitted one is followed.
func TestRequestRedirects(t *testing.T) {
	t.Parallel()
	hits := 0
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hits++
		assert.Empty(t, r.Header.Get("Authorization"))
		reply(t, w, "other")
	})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other+"/x", http.StatusTemporaryRedirect)
	})
	args := map[string]any{"url": url, "method": "POST", "body": "b", "headers": map[string]string{"Authorization": "Bearer sesame123"}}
	env := newEnv()
	for range 2 {
		out, err := request(t, env, args)
		require.NoError(t, err)
		assert.Equal(t, http.StatusTemporaryRedirect, out.StatusCode)
		assert.Equal(t, other+"/x", out.Headers["Location"])
		assert.Contains(t, out.RedirectRefused, other)
		assert.Zero(t, hits)
		env.Allows = func(tools.Target) bool { return false }
	}
	env.Allows = func(target tools.Target) bool { return target == tools.Target{Kind: tools.Endpoint, Name: other} }
	out, err := request(t, env, args)
	require.NoError(t, err)
	assert.Equal(t, "other", out.Body)
	assert.Empty(t, out.RedirectRefused)
	assert.Equal(t, 1, hits)
}

// A server that echoes requests does not bring credentials into the result.
func TestRequestLeavesCredentialsOut(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "session=cookiesecret")
		w.Header().Set("X-Echo", "you sent "+r.Header.Get("Authorization"))
		w.Header().Set("X-Auth-Token", "freshsecret")
		w.Header().Set("Www-Authenticate", "Bearer realm=x")
		_, password, _ := r.BasicAuth()
		reply(t, w, "visible %v %s", r.Header, password)
	})
	basic := base64.StdEncoding.EncodeToString([]byte("ada:basicsecret"))
	for _, authorization := range []string{"Bearer bearersecret", "Basic " + basic} {
		out, err := request(t, newEnv(), map[string]any{"url": url, "method": "GET", "headers": map[string]string{
			"Authorization": authorization, "X-Api-Key": "apikeysecret", "Cookie": "a=1; sid=crumbsecret", "X-Plain": "plain",
		}})
		require.NoError(t, err)
		text := fmt.Sprint(out)
		for _, secret := range []string{"bearersecret", "basicsecret", basic, "apikeysecret", "crumbsecret", "cookiesecret", "freshsecret"} {
			assert.NotContains(t, text, secret)
		}
		assert.Contains(t, out.Body, "visible")
		assert.Contains(t, out.Body, "plain")
		assert.Equal(t, "Bearer realm=x", out.Headers["Www-Authenticate"])
	}
}

func TestRequestBodies(t *testing.T) {
	t.Parallel()
	bodies := map[string][]byte{
		"/binary":  {0xff, 0xfe, 0, 1},
		"/empty":   {},
		"/long":    []byte("x" + strings.Repeat("ü", 300<<10)),
		"/control": []byte(strings.Repeat("\x01", 600<<10)),
	}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write(bodies[r.URL.Path])
		if err != nil {
			return // the reader stops at the limit
		}
	})
	out, err := request(t, newEnv(), map[string]any{"url": url + "/binary", "method": "GET"})
	require.NoError(t, err)
	assert.Equal(t, "base64", out.BodyEncoding)
	assert.Equal(t, "//4AAQ==", out.Body)
	out, err = request(t, newEnv(), map[string]any{"url": url + "/empty", "method": "GET"})
	require.NoError(t, err)
	assert.Empty(t, out.Body)
	for path, kept := range map[string]int{"/long": 512<<10 - 1, "/control": 512 << 10} { // an incomplete ü is dropped
		out, err = request(t, newEnv(), map[string]any{"url": url + path, "method": "GET"})
		require.NoError(t, err)
		assert.True(t, out.Truncated)
		assert.Equal(t, string(bodies[path][:kept]), out.Body)
		assert.Equal(t, "utf-8", out.BodyEncoding)
		data, err := json.Marshal(out)
		require.NoError(t, err)
		assert.Less(t, len(data), 4<<20)
	}
}
