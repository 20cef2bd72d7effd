package forge_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/forge"
)

// limit is the response to too many requests, and the wait until the next one.
type limit struct {
	status int
	page   string
	header map[string]string
	wait   time.Duration
}

func limits(now time.Time) map[string]limit {
	const usual, second = "https://docs.github.com/rest", "https://docs.github.com/secondary-rate-limits"
	until := func(reset string) map[string]string {
		return map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
	}
	soon := until(strconv.FormatInt(now.Add(90*time.Second).Unix(), 10))
	after := map[string]string{"Retry-After": "90"}
	return map[string]limit{
		"primary":        {http.StatusForbidden, usual, soon, 90 * time.Second},
		"primary 429":    {http.StatusTooManyRequests, usual, soon, 90 * time.Second},
		"no time":        {http.StatusForbidden, usual, until(""), time.Minute},
		"past":           {http.StatusForbidden, usual, until("1"), time.Minute},
		"far away":       {http.StatusForbidden, usual, until("99999999999"), time.Hour},
		"secondary":      {http.StatusForbidden, second, after, 90 * time.Second},
		"secondary bare": {http.StatusForbidden, second, nil, time.Minute},
		"unknown page":   {http.StatusForbidden, usual, after, 90 * time.Second},
		"429":            {http.StatusTooManyRequests, usual, nil, time.Minute},
		"429 with time":  {http.StatusTooManyRequests, usual, after, 90 * time.Second},
	}
}

// S3-071, S3-155: every form of a rate limit becomes RATE_LIMITED with the time of the next attempt, for reads and
// writes. The call does not wait for it, and a known limit needs no request.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, w := range append(
		writers(),
		writer{name: "github.readFile", request: "GET /repos/o/r/contents/f", args: in(object{"path": "f"})},
		writer{name: "github.searchCode", request: "GET /search/code", args: object{"query": "q"}},
		writer{name: "github.getWorkflowRuns", request: "GET /repos/o/r/actions/runs", args: in(nil)},
	) {
		began := time.Now()
		for name, tc := range limits(began) {
			s.seen()
			body := object{"message": "verbatim words of GitHub", "documentation_url": tc.page}
			s.on(w.request, answer{status: tc.status, body: body, header: tc.header})
			limited := tool(t, s.config(), w.name)
			for range 2 {
				_, err := call(t, limited, w.args)
				e := failed(t, err, fault.RateLimited, "RATE_LIMIT", "")
				assert.WithinRange(t, e.RetryAt, began.Add(tc.wait-3*time.Second), time.Now().Add(tc.wait+time.Second), "%s: %s", name, w.name)
				assert.Contains(t, e.Message, e.RetryAt.Format(time.RFC3339))
			}
			if name == "primary" || name == "secondary" {
				assert.Len(t, s.seen(), 1, "%s: %s", name, w.name)
			}
		}
	}
}

// A response that uses up a limit is the last one: the next call of the same resource needs no request. Other resources and the
// request for the limits go on.
func TestLastRequestOfALimit(t *testing.T) {
	t.Parallel()
	s := serve(t)
	last := s.holding("f", "text")
	last.header = map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10)}
	s.on("GET /repos/o/r/contents/f", last)
	s.on("GET /search/code", s.hits(0, false))
	all := map[string]tools.Tool{}
	for _, tool := range forge.Tools(s.config()) {
		all[tool.Spec().Name] = tool
	}
	_, err := call(t, all["github.readFile"], in(object{"path": "f"}))
	require.NoError(t, err)
	_, err = call(t, all["github.getWorkflowRuns"], in(nil))
	failed(t, err, fault.RateLimited, "RATE_LIMIT", "")
	_, err = call(t, all["github.searchCode"], object{"query": "q"})
	require.NoError(t, err)
	assert.Len(t, s.seen(), 2)
}

// Rejected input whose details are no objects, or whose body is no JSON, is still rejected input.
func TestDetailsOfOtherForms(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, raw := range []string{`{"errors":["A pull request already exists for o:b"]}`, `{"errors":[{"message":"A pull request already exists for o:b"}]}`} {
		s.on("POST /repos/o/r/pulls", answer{status: http.StatusUnprocessableEntity, raw: raw})
		_, err := call(t, tool(t, s.config(), "github.createPR"), in(object{"title": "t", "head": "b", "base": "main"}))
		failed(t, err, fault.Conflict, "", "head")
	}
	for _, raw := range []string{`{"errors":[7,null]}`, `{"errors":"none"}`, "<html>"} {
		s.on("POST /repos/o/r/pulls", answer{status: http.StatusUnprocessableEntity, raw: raw})
		_, err := call(t, tool(t, s.config(), "github.createPR"), in(object{"title": "t", "head": "b", "base": "main"}))
		failed(t, err, fault.ValidationError, "", "")
	}
}

// The token is sent only to the server of the API, whatever that returns.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var stolen []string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen = append(stolen, r.Header.Get("Authorization"))
	}))
	t.Cleanup(thief.Close)
	s := serve(t)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect} {
		away := answer{status: status, raw: "x", header: map[string]string{"Location": thief.URL + "/" + secret}}
		s.on("GET /repos/o/r/contents/f", away)
		_, err := call(t, tool(t, s.config(), "github.readFile"), in(object{"path": "f"}))
		failed(t, err, fault.GithubError, "", "")
		s.on(issues, away)
		_, err = call(t, tool(t, s.config(), "github.createIssue"), in(object{"title": "t"}))
		failed(t, err, fault.GithubError, "", "")
	}
	assert.Empty(t, stolen)
	s.on("GET /repos/o/r/contents/old", answer{status: http.StatusMovedPermanently, raw: "x", header: map[string]string{"Location": s.url + "/repos/o/r/contents/new"}})
	s.on("GET /repos/o/r/contents/new", s.holding("new", "moved"))
	out, err := call(t, tool(t, s.config(), "github.readFile"), in(object{"path": "old"}))
	require.NoError(t, err)
	assert.Equal(t, "moved", out["content"], "a repository with a new name")
}

// A server that echoes the token does not bring it into errors, including causes for the log.
func TestTokenIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.on("GET /repos/o/r/contents/f", answer{status: http.StatusInternalServerError, body: object{"message": "verbatim " + secret}})
	_, err := call(t, tool(t, s.config(), "github.readFile"), in(object{"path": "f"}))
	e := failed(t, err, fault.GithubError, "", "")
	assert.Contains(t, causes(e), "[github_token]")
	assert.Contains(t, causes(e), "verbatim", "the log has the details")
}

// S3-158: failures before a request arrives.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			assert.NoError(t, conn.Close())
		}
	}))
	t.Cleanup(broken.Close)
	read, write := in(object{"path": "f"}), in(object{"title": "t"})
	for _, tc := range []struct {
		url, tool, reason string
		args              object
		code              fault.Code
	}{
		{closed, "github.readFile", "CONNECTION_ERROR", read, fault.GithubError},
		{closed, "github.createIssue", "CONNECTION_ERROR", write, fault.GithubError},
		{broken.URL, "github.readFile", "CONNECTION_ERROR", read, fault.GithubError},
		{broken.URL, "github.createIssue", "GITHUB_ERROR", write, fault.InDoubt},
		{"ftp://example.com", "github.readFile", "", read, fault.ToolUnavailable},
		{"http://a:b@example.com", "github.createIssue", "", write, fault.ToolUnavailable},
	} {
		_, err := call(t, tool(t, forge.Config{URL: tc.url, Token: secret}, tc.tool), tc.args)
		e := fault.From(err)
		require.NotNil(t, e)
		assert.Equal(t, []string{string(tc.code), tc.reason}, []string{string(e.Code), e.Reason}, "%s %s: %v", tc.url, tc.tool, err)
	}
}

// S3-159.
func TestTimeAndCancellation(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(over) }) // before the server is closed
	for _, w := range append(writers(), writer{name: "github.readFile", args: in(object{"path": "f"})}) {
		called := tool(t, forge.Config{URL: slow.URL, Token: secret}, w.name)
		raw, err := json.Marshal(w.args)
		require.NoError(t, err)
		raw, err = called.Check(raw)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = called.Call(ctx, newEnv(), raw)
		cancel()
		failed(t, err, fault.Timeout, "", "")
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		_, err = called.Call(ctx, newEnv(), raw)
		failed(t, err, fault.Cancelled, "", "")
	}
}
