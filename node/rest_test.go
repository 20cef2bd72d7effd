package node_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
)

// site is the HTTP API of a node.
func (e *endpoint) site(path string) string { return strings.TrimSuffix(e.PageURL(), "/ui/") + path }

// request sends a request with a token, or with no token if that is empty.
func (e *endpoint) request(verb, path, token, body string, header ...string) (status int, answer string, h http.Header) {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), verb, e.site(path), strings.NewReader(body))
	require.NoError(e.t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(e.t, err)
	defer func() { _ = got.Body.Close() }()
	data, err := io.ReadAll(got.Body)
	require.NoError(e.t, err)
	return got.StatusCode, string(data), got.Header
}

const helloPlan = `{"plan":{"orch":"v1","name":"hello","steps":[{"id":"say","tool":"LOG_WRITE","with":{"level":"INFO","message":"hello"}}]}}`

// Identities share a node over the HTTP API, and see what their roles allow.
func TestHTTPAPI(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	agent, other := e.issue(bus.NewToken{Name: "bot", Role: bus.RoleAgent}), e.issue(bus.NewToken{Name: "eve", Role: bus.RoleSubmitter})
	narrow := e.issue(bus.NewToken{Name: "ro", Role: bus.RoleOperator, ReadOnly: true})
	status, answer, h := e.request("POST", "/api/v1/tasks", agent, helloPlan, "Idempotency-Key", "k")
	require.Equal(t, http.StatusCreated, status, answer)
	task := h.Get("Location")
	require.Regexp(t, `^/api/v1/tasks/TASK_\w{26}$`, task)

	status, answer, _ = e.request("GET", task+"/result?wait=30s", agent, "")
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, answer, `"state":"DONE"`)
	for token, want := range map[string]int{agent: 200, e.token: 200, narrow: 200, other: 404, "": 401, "orch_zzz": 401} {
		for _, path := range []string{"", "/history", "/explain", "/plan", "/replay", "/trace", "/checkpoints", "/events"} {
			status, answer, _ = e.request("GET", task+path, token, "")
			assert.Equal(t, want, status, path+answer)
		}
	}
	status, _, _ = e.request("POST", "/api/v1/tasks", narrow, helloPlan)
	assert.Equal(t, http.StatusForbidden, status, "a token that only reads")
	_, answer, _ = e.request("GET", "/api/v1/tasks", other, "")
	assert.JSONEq(t, `{"tasks":[]}`, answer)
	status, answer, _ = e.request("POST", "/api/v1/tasks", other, helloPlan, "Idempotency-Key", "k")
	assert.Equal(t, http.StatusCreated, status, "keys of identities that see only their own tasks are separate: %s", answer)
	_, answer, _ = e.request("GET", "/api/v1/tasks/"+strings.TrimPrefix(task, "/api/v1/tasks/"), e.token, "")
	assert.Contains(t, answer, `"requestor":"agent:bot"`)
	_, answer, _ = e.request("GET", task+"/events", agent, "")
	assert.Equal(t, strings.Count(answer, "event: commit"), strings.Count(answer, "\nid: ")+1, "each commit has its revision as id")
	assert.Contains(t, answer, "event: end\n")
}

// The node tells those who listen which tasks have changed.
func TestHTTPEvents(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.site("/api/v1/events"), nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+e.token)
	got, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer func() { _ = got.Body.Close() }()
	require.Equal(t, http.StatusOK, got.StatusCode)
	lines := bufio.NewScanner(got.Body)
	await := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatal("the stream has ended before " + text)
	}
	await(`"approvals":0`)
	status, _, _ := e.request("POST", "/api/v1/tasks", e.token, `{"plan":{"orch":"v1","name":"asks","steps":[{"id":"a","tool":"test.asks"}]}}`)
	require.Equal(t, http.StatusCreated, status)
	await(`"name":"asks"`)
	await(`"approvals":1`)
	_, answer, _ := e.request("GET", "/api/v1/approvals", e.token, "")
	var list struct {
		Approvals []struct {
			ID string `json:"id"`
		} `json:"approvals"`
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &list))
	require.Len(t, list.Approvals, 1)
	status, answer, _ = e.request("POST", "/api/v1/approvals/"+list.Approvals[0].ID+"/decide", e.token, `{"as":"granted"}`)
	require.Equal(t, http.StatusOK, status, answer)
	assert.Contains(t, answer, `"approver":"user:op"`)
	await(`"approvals":0`)
}

// A write that is based on an old revision changes nothing if somebody else has decided since: the answer is 409 and says who did what.
func TestHTTPStaleRevision(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	bob := e.issue(bus.NewToken{Name: "bob", Role: bus.RoleOperator})
	status, answer, h := e.request("POST", "/api/v1/tasks", e.token,
		`{"plan":{"orch":"v1","steps":[{"id":"who","tool":"QUESTION_ASK","with":{"question":"Who?"}},{"id":"a","tool":"test.asks"}]}}`)
	require.Equal(t, http.StatusCreated, status, answer)
	task := h.Get("Location")
	read := func(path string, into any) {
		t.Helper()
		status, answer, _ := e.request("GET", path, e.token, "")
		require.Equal(t, http.StatusOK, status, answer)
		require.NoError(t, json.Unmarshal([]byte(answer), into))
	}
	var waits struct{ Approvals, Questions []struct{ ID string } }
	require.Eventually(t, func() bool {
		read("/api/v1/approvals", &waits)
		read("/api/v1/questions", &waits)
		return len(waits.Approvals) == 1 && len(waits.Questions) == 1
	}, time.Minute, 10*time.Millisecond)
	approval, question := "/api/v1/approvals/"+waits.Approvals[0].ID+"/decide", "/api/v1/questions/"+waits.Questions[0].ID+"/answer"
	var seen, now struct{ Rev uint64 }
	read(task, &seen)
	status, answer, _ = e.request("POST", task+"/pause", bob, fmt.Sprintf(`{"seen_rev":%d}`, seen.Rev))
	require.Equal(t, http.StatusOK, status, answer)
	read(task, &now)

	const fields = `"response":{"action":"accept","content":{"answer":"Ada"}},`
	for path, body := range map[string]string{
		approval: `"as":"granted",`, question: fields, question + "?": `"declined":true,`, task + "/cancel": "", task + "/pause": "", task + "/resume": "",
		task + "/resolve": `"step":"a","as":"failed",`, task + "/retry": "", task + "/redrive": "", task + "/steps/a/say": `"text":"hi",`,
	} {
		status, answer, _ = e.request("POST", path, e.token, fmt.Sprintf(`{%s"seen_rev":%d}`, body, seen.Rev))
		assert.Equal(t, http.StatusConflict, status, path+answer)
		assert.Contains(t, answer, `"STALE_REVISION"`, path)
		assert.Contains(t, answer, fmt.Sprintf("user:bob paused the task at revision %d", now.Rev), path)
	}
	var after struct{ Rev uint64 }
	read(task, &after)
	assert.Equal(t, now.Rev, after.Rev, "nothing has happened")
	for path, body := range map[string]string{approval: `"as":"granted",`, question: fields} {
		read(task, &now)
		status, answer, _ = e.request("POST", path, e.token, fmt.Sprintf(`{%s"seen_rev":%d}`, body, now.Rev))
		assert.Equal(t, http.StatusOK, status, path+answer)
	}
}

// A one-time link logs in a browser as the operator.
func TestHTTPLogin(t *testing.T) {
	t.Parallel()
	var folder string
	e := serveRPC(t, func(c *node.Config) { folder = c.DataDir })
	var link node.Link
	remote, err := node.Dial(t.Context(), node.Config{DataDir: folder})
	require.NoError(t, err)
	defer func() { _ = remote.Close() }()
	require.NoError(t, remote.Ask(t.Context(), node.LinkMethod, node.LinkRequest{}, &link))
	assert.WithinDuration(t, time.Now().Add(time.Minute), link.ExpiresAt, 10*time.Second)
	path := strings.TrimPrefix(link.URL, e.site(""))
	status, _, h := e.request("GET", path, "", "")
	require.Equal(t, http.StatusSeeOther, status)
	cookie, _, _ := strings.Cut(h.Get("Set-Cookie"), ";")
	status, _, _ = e.request("GET", path, "", "")
	assert.Equal(t, http.StatusGone, status)
	_, answer, _ := e.request("GET", "/api/v1/status", "", "", "Cookie", cookie)
	assert.Contains(t, answer, `"role":"operator"`)
	status, answer, _ = e.request("POST", "/api/v1/tasks", "", helloPlan, "Cookie", cookie)
	assert.Equal(t, http.StatusForbidden, status, answer)
	status, answer, _ = e.request("POST", "/api/v1/tasks", "", helloPlan, "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "X-Orch-Request", "1")
	assert.Equal(t, http.StatusCreated, status, answer)
	status, answer, _ = e.request("GET", "/ui/", "", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, answer, "<html")
}

// links are the one-time links of a node.
type links struct {
	*endpoint

	remote *rpc.Remote
}

func serveLinks(t *testing.T) links {
	t.Helper()
	var folder string
	e := serveRPC(t, func(c *node.Config) { folder = c.DataDir })
	remote, err := node.Dial(t.Context(), node.Config{DataDir: folder})
	require.NoError(t, err)
	t.Cleanup(func() { _ = remote.Close() })
	return links{e, remote}
}

// logIn returns the cookie of a browser that followed a link.
func (l links) logIn(r node.LinkRequest) (node.Link, string) {
	l.t.Helper()
	var link node.Link
	require.NoError(l.t, l.remote.Ask(l.t.Context(), node.LinkMethod, r, &link))
	status, _, h := l.request("GET", strings.TrimPrefix(link.URL, l.site("")), "", "")
	require.Equal(l.t, http.StatusSeeOther, status)
	cookie, _, _ := strings.Cut(h.Get("Set-Cookie"), ";")
	return link, cookie
}

// write submits a task with a cookie.
func (l links) write(cookie string) int {
	l.t.Helper()
	status, _, _ := l.request("POST", "/api/v1/tasks", "", helloPlan, "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "X-Orch-Request", "1")
	return status
}

// A link gives a browser the role that it names, and nothing else.
func TestLinksOfRoles(t *testing.T) {
	t.Parallel()
	l := serveLinks(t)
	for role, may := range map[string]struct{ submit, pause int }{
		"operator": {201, 200}, "submitter": {201, 403}, "viewer": {403, 403},
	} {
		link, cookie := l.logIn(node.LinkRequest{Role: role})
		assert.Equal(t, role, link.Role)
		_, answer, _ := l.request("GET", "/api/v1/status", "", "", "Cookie", cookie)
		assert.Contains(t, answer, `"role":"`+role+`"`)
		assert.Contains(t, answer, `"identity":"`+link.Identity+`"`)
		assert.Equal(t, may.submit, l.write(cookie), role)
		status, _, _ := l.request("POST", "/api/v1/pause", "", `{"queue":"none"}`, "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "X-Orch-Request", "1")
		assert.Equal(t, may.pause, status, role)
	}
}

// A link for a token gives a browser the identity, the role and the limits of the token, as long as it is valid.
func TestLinksOfTokens(t *testing.T) {
	t.Parallel()
	l := serveLinks(t)
	l.issue(bus.NewToken{Name: "vic", Role: bus.RoleViewer})
	l.issue(bus.NewToken{Name: "ro", Role: bus.RoleOperator, ReadOnly: true})
	link, narrowed := l.logIn(node.LinkRequest{Token: "ro"})
	assert.Equal(t, []string{"user:ro", "operator"}, []string{link.Identity, link.Role})
	assert.Equal(t, http.StatusForbidden, l.write(narrowed), "the token only reads")
	link, cookie := l.logIn(node.LinkRequest{Token: "vic"})
	assert.Equal(t, []string{"user:vic", "viewer"}, []string{link.Identity, link.Role})
	assert.Equal(t, http.StatusForbidden, l.write(cookie))

	stream := l.follow("/api/v1/events", "Cookie", cookie)
	_, err := l.Tokens().RevokeToken(t.Context(), bus.RevokeToken{Token: "vic", Actor: "user:ada"})
	require.NoError(t, err)
	_, err = io.ReadAll(stream) // returns when the stream has ended
	require.NoError(t, err)
	l.issue(bus.NewToken{Name: "vic", Role: bus.RoleOperator})
	status, answer, _ := l.request("GET", "/api/v1/status", "", "", "Cookie", cookie)
	assert.Equal(t, http.StatusUnauthorized, status, "another token of that name is another login: %s", answer)
}

// follow opens a stream.
func (e *endpoint) follow(path string, header ...string) io.Reader {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, e.site(path), nil)
	require.NoError(e.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { _ = got.Body.Close() })
	require.Equal(e.t, http.StatusOK, got.StatusCode)
	return got.Body
}

func TestLinksRefused(t *testing.T) {
	t.Parallel()
	l := serveLinks(t)
	l.issue(bus.NewToken{Name: "bot", Role: bus.RoleAgent})
	l.issue(bus.NewToken{Name: "brief", Role: bus.RoleViewer, Life: time.Nanosecond})
	for name, c := range map[string]struct {
		r     node.LinkRequest
		code  fault.Code
		field string
	}{
		"no such role":  {node.LinkRequest{Role: "root"}, fault.ValidationError, "role"},
		"agent":         {node.LinkRequest{Role: "agent"}, fault.ValidationError, "role"},
		"both":          {node.LinkRequest{Role: "viewer", Token: "bot"}, fault.ValidationError, "role"},
		"no such token": {node.LinkRequest{Token: "nobody"}, fault.NotFound, "token"},
		"an agent's":    {node.LinkRequest{Token: "bot"}, fault.Forbidden, "token"},
		"expired":       {node.LinkRequest{Token: "brief"}, fault.TokenExpired, ""},
	} {
		err := l.remote.Ask(t.Context(), node.LinkMethod, c.r, &node.Link{})
		assert.Equal(t, c.code, fault.CodeOf(err), name)
		assert.Equal(t, c.field, fault.From(err).Field, name)
	}
}

// Errors of HTTP itself have the form of the API, whatever path they are about.
func TestHTTPErrors(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	for name, c := range map[string]struct {
		verb, path, body    string
		header              []string
		status              int
		code, reason, field string
	}{
		"unknown path of the API":  {"GET", "/api/v1/nothing", "", nil, 404, "NOT_FOUND", "NO_SUCH_PATH", ""},
		"a newer version":          {"GET", "/api/v2/tasks", "", nil, 400, "NEWER_REQUEST", "", ""},
		"unknown path":             {"GET", "/nothing", "", nil, 404, "NOT_FOUND", "NO_SUCH_PATH", ""},
		"the root":                 {"GET", "/", "", nil, 404, "NOT_FOUND", "NO_SUCH_PATH", ""},
		"wrong method of the API":  {"DELETE", "/api/v1/tasks", "", nil, 405, "INVALID_REQUEST", "METHOD_NOT_ALLOWED", ""},
		"wrong method of a path":   {"POST", "/.well-known/agent-card.json", "", nil, 405, "INVALID_REQUEST", "METHOD_NOT_ALLOWED", ""},
		"a large body":             {"POST", "/api/v1/tasks", strings.Repeat(" ", 4<<20+1), nil, 413, "VALIDATION_ERROR", "SIZE_LIMIT_EXCEEDED", ""},
		"a form":                   {"POST", "/api/v1/tasks", "a=b", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "INVALID_REQUEST", "UNSUPPORTED_MEDIA_TYPE", "Content-Type"},
		"a compressed body":        {"POST", "/api/v1/tasks", "x", []string{"Content-Encoding", "gzip"}, 415, "INVALID_REQUEST", "UNSUPPORTED_MEDIA_TYPE", "Content-Encoding"},
		"a compressed body of MCP": {"POST", "/mcp", "x", []string{"Content-Encoding", "gzip"}, 415, "INVALID_REQUEST", "UNSUPPORTED_MEDIA_TYPE", "Content-Encoding"},
	} {
		status, answer, h := e.request(c.verb, c.path, e.token, c.body, c.header...)
		assert.Equal(t, c.status, status, "%s: %s", name, answer)
		var got struct {
			Error struct{ Code, Reason, Field, Message string }
		}
		require.NoError(t, json.Unmarshal([]byte(answer), &got), "%s: %s", name, answer)
		assert.Equal(t, []string{c.code, c.reason, c.field}, []string{got.Error.Code, got.Error.Reason, got.Error.Field}, name)
		assert.NotEmpty(t, got.Error.Message, name)
		assert.Equal(t, "application/json", h.Get("Content-Type"), name)
		assert.NotEmpty(t, h.Get("X-Request-Id"), name)
		assert.Equal(t, status == http.StatusMethodNotAllowed, h.Get("Allow") != "", name)
	}
}

// A file that one node has exported is imported by another one, over HTTP.
func TestHTTPImport(t *testing.T) {
	t.Parallel()
	from, to := serveRPC(t), serveRPC(t)
	status, _, h := from.request("POST", "/api/v1/tasks", from.token, helloPlan)
	require.Equal(t, http.StatusCreated, status)
	task := h.Get("Location")
	_, _, _ = from.request("GET", task+"/result?wait=30s", from.token, "")
	status, file, _ := from.request("GET", task+"/export", from.token, "")
	require.Equal(t, http.StatusOK, status)
	upload := func(file string) (int, string) {
		status, answer, _ := to.request("POST", "/api/v1/import", to.token, file, "Content-Type", "application/octet-stream")
		return status, answer
	}
	for _, existing := range []bool{false, true} {
		status, answer := upload(file)
		require.Equal(t, http.StatusOK, status, answer)
		assert.Contains(t, answer, `"id":"`+strings.TrimPrefix(task, "/api/v1/tasks/")+`"`)
		assert.Contains(t, answer, `"by":"user:op"`)
		assert.Equal(t, existing, strings.Contains(answer, `"existing":true`))
	}
	status, answer, _ := to.request("GET", task, to.token, "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, answer, `"imported":`)
	for name, c := range map[string]struct {
		file   string
		status int
	}{
		"damaged": {file[:len(file)-9] + "~" + file[len(file)-8:], 500},
		"cut":     {file[:len(file)-1], 500},
		"foreign": {"hello", 400},
		"empty":   {"", 400},
	} {
		got, answer := upload(c.file)
		assert.Equal(t, c.status, got, "%s: %s", name, answer)
		assert.Contains(t, answer, `"error":`, name)
	}
}
