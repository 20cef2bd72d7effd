package node_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/hooks"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// putHook creates a hook over the HTTP API.
func (e *endpoint) putHook(name, definition, secret string) {
	e.t.Helper()
	status, answer, _ := e.request("POST", "/api/v1/hooks", e.token, fmt.Sprintf(`{"name":%q,"definition":%s,"secret":%q}`, name, definition, secret))
	require.Equal(e.t, http.StatusOK, status, answer)
	assert.NotContains(e.t, answer, "whsec_")
}

// deliver sends a delivery in the form of Standard Webhooks.
func (e *endpoint) deliver(name, id, body string, header ...string) (status int, answer map[string]any, h http.Header) {
	e.t.Helper()
	for n, value := range hooks.Sign(hooks.Standard, hookSecret, id, []byte(body), time.Now()) {
		header = append(header, n, value)
	}
	status, text, h := e.request("POST", "/hooks/"+name, "", body, header...)
	require.NoError(e.t, json.Unmarshal([]byte(text), &answer), text)
	return status, answer, h
}

const echoHook = `{"provider":"standard","when":"hook.body.kind != 'other'","plan":{"orch":"v1","name":"echo",
	"steps":[{"id":"a","set":{"text":"${{ hook.name }} ${{ hook.delivery }} ${{ hook.body.n }} ${{ len(hook.body.pad ?? '') }}"}}],"outputs":{"text":"${{ steps.a.output.text }}"}}}`

// A delivery that is sent fifty times at once starts one task, which sees it.
func TestHookDeliveries(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	e.putHook("echo", echoHook, hookSecret)
	var group sync.WaitGroup
	var mu sync.Mutex
	statuses, tasks := map[int]int{}, map[any]int{}
	for range 50 {
		group.Go(func() {
			status, answer, _ := e.deliver("echo", "msg_1", `{"n":7}`)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
			tasks[answer["task"]]++
		})
	}
	group.Wait()
	id := string(events.KeyedTaskID("", "hook/echo/msg_1"))
	assert.Equal(t, map[int]int{http.StatusAccepted: 1, http.StatusOK: 49}, statuses)
	assert.Equal(t, map[any]int{id: 50}, tasks)
	_, answer, _ := e.request("GET", "/api/v1/tasks/"+id+"/result?wait=30s", e.token, "")
	assert.Contains(t, answer, `"text":"echo msg_1 7 0"`)
	_, answer, _ = e.request("GET", "/api/v1/tasks?label=hook=echo", e.token, "")
	assert.Equal(t, 1, strings.Count(answer, `"id":"TASK_`))

	status, got, _ := e.deliver("echo", "msg_2", `{"kind":"other"}`)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, map[string]any{"result": "filtered", "delivery": "msg_2"}, got)
	_, answer, _ = e.request("GET", "/api/v1/hooks/echo/deliveries", e.token, "")
	assert.Contains(t, answer, `"delivery":"msg_2","result":"filtered","reason":"when is false"`)
	_, answer, _ = e.request("GET", "/metrics", e.token, "")
	assert.Contains(t, answer, "orch_hook_deliveries_total{result=\"accepted\"} 1\n")
	assert.Contains(t, answer, "orch_hook_deliveries_total{result=\"duplicate\"} 49\n")
}

// A large body is in the blob store; a fork of the task sees it as well.
func TestHookWithALargeBody(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	e.putHook("big", `{"provider":"standard","plan":{"orch":"v1","name":"big","steps":[
		{"id":"a","set":{"n":"${{ len(hook.body.pad) }}"}}],"outputs":{"n":"${{ steps.a.output.n }}","from":"${{ hook.headers['user-agent'] }}"}}}`, hookSecret)
	body := fmt.Sprintf(`{"fail":false,"pad":%q}`, strings.Repeat("x", 900_000))
	status, answer, _ := e.deliver("big", "msg_1", body, "User-Agent", "sender/1")
	require.Equal(t, http.StatusAccepted, status, answer)
	_, text, _ := e.request("GET", fmt.Sprintf("/api/v1/tasks/%s/result?wait=30s", answer["task"]), e.token, "")
	assert.Contains(t, text, `"n":900000`)
	assert.Contains(t, text, `"from":"sender/1"`)
	_, text, _ = e.request("GET", fmt.Sprintf("/api/v1/tasks/%s/history", answer["task"]), e.token, "")
	assert.Contains(t, text, `"hook":{"name":"big","id":"msg_1"`)
	assert.Less(t, len(text), 100_000)
	status, text, _ = e.request("POST", fmt.Sprintf("/api/v1/tasks/%s/fork", answer["task"]), e.token, `{"at":"a","live_from":"a"}`)
	require.Equal(t, http.StatusCreated, status, text)
	var fork struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(text), &fork))
	_, text, _ = e.request("GET", "/api/v1/tasks/"+fork.ID+"/result?wait=30s", e.token, "")
	assert.Contains(t, text, `"n":900000`)
	status, _, _ = e.deliver("big", "msg_2", strings.Repeat(" ", 1<<20)+"{}")
	assert.Equal(t, http.StatusRequestEntityTooLarge, status)
}

func TestHookRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	e.putHook("echo", echoHook, hookSecret)
	e.putHook("open", `{"provider":"none","plan":{"orch":"v1","name":"open","steps":[{"id":"a","set":{"x":1}}]}}`, "")
	for _, path := range []string{"/hooks/echo", "/hooks/unknown", "/hooks/", "/hooks/open", "/hooks/a/b", "/hooks/..%2fecho", "/hooks/" + strings.Repeat("x", 5000)} {
		status, answer, _ := e.request("POST", path, "", "{}")
		assert.Equal(t, http.StatusUnauthorized, status, path)
		assert.JSONEq(t, `{"error":{"code":"UNAUTHORIZED","message":"there is no such hook, or the request is not signed with its secret",
			"hint":"orch hook get NAME shows, on the machine of the node, why the last request was rejected"}}`, answer, path)
		status, _, h := e.request("GET", path, e.token, "")
		assert.Equal(t, http.StatusMethodNotAllowed, status, path)
		assert.Equal(t, "POST", h.Get("Allow"))
	}
	status, answer, _ := e.deliver("echo", "msg_1", "{}", "Origin", "http://pages.example")
	assert.Equal(t, http.StatusForbidden, status, answer)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.site("/hooks/echo"), strings.NewReader("{}"))
	require.NoError(t, err)
	r.Host = "hooks.example.org"
	r.Header.Set("Content-Type", "application/json")
	for name, value := range hooks.Sign(hooks.Standard, hookSecret, "msg_1", []byte("{}"), time.Now()) {
		r.Header.Set(name, value)
	}
	got, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	assert.Equal(t, http.StatusAccepted, got.StatusCode, "a tunnel passes on the public name")
	status, answer, _ = e.deliver("echo", "msg_2", "{")
	assert.Equal(t, http.StatusUnprocessableEntity, status, answer)
	status, _, _ = e.request("POST", "/api/v1/hooks/echo/pause", e.token, "")
	require.Equal(t, http.StatusOK, status)
	status, answer, h := e.deliver("echo", "msg_3", "{}")
	assert.Equal(t, http.StatusServiceUnavailable, status, answer)
	assert.NotEmpty(t, h.Get("Retry-After"))

	operator, submitter := e.token, e.issue(bus.NewToken{Name: "sue", Role: bus.RoleSubmitter})
	narrow := e.issue(bus.NewToken{Name: "ro", Role: bus.RoleOperator, ReadOnly: true})
	for token, want := range map[string]int{operator: 202, submitter: 401, narrow: 401, "orch_zzz": 401} {
		status, text, _ := e.request("POST", "/hooks/open", token, "{}")
		assert.Equal(t, want, status, text)
	}
}

// A signal of a delivery arrives once, and not at a task that has ended.
func TestHookThatSignals(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	e.putHook("answer", `{"provider":"standard","signal":{"task":"${{ hook.body.task }}","name":"answer","data":{"by":"${{ hook.body.by }}"}}}`, hookSecret)
	status, text, _ := e.request("POST", "/api/v1/tasks", e.token, `{"plan":{"orch":"v1","name":"asks","steps":[{"id":"one","wait":{"signal":"answer","timeout":"1h"}},
		{"id":"two","needs":["one"],"wait":{"signal":"answer","timeout":"1h"}}],"outputs":{"one":"${{ steps.one.output.by }}","two":"${{ steps.two.output.by }}"}}}`)
	require.Equal(t, http.StatusCreated, status, text)
	var task struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(text), &task))
	body := func(by string) string { return fmt.Sprintf(`{"task":%q,"by":%q}`, task.ID, by) }
	for i, want := range []int{http.StatusAccepted, http.StatusOK, http.StatusOK} {
		status, answer, _ := e.deliver("answer", "msg_1", body("ada"))
		require.Equal(t, want, status, "%d %v", i, answer)
		assert.Equal(t, task.ID, answer["task"])
	}
	status, answer, _ := e.deliver("answer", "msg_2", body("bob"))
	require.Equal(t, http.StatusAccepted, status, answer)
	_, text, _ = e.request("GET", "/api/v1/tasks/"+task.ID+"/result?wait=30s", e.token, "")
	assert.Contains(t, text, `"output":{"one":"ada","two":"bob"}`)
	status, _, _ = e.deliver("answer", "msg_3", body("eve"))
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	status, answer, _ = e.deliver("answer", "msg_1", body("ada"))
	assert.Equal(t, http.StatusOK, status, "it has arrived: %v", answer)
}

// A member that stands by passes deliveries on, under any host name. The next active node has the hooks with their secrets, and knows
// what was delivered.
func TestHooksOfACluster(t *testing.T) {
	t.Parallel()
	server := natsServer(t)
	first, second := serveMember(t, server), serveMember(t, server)
	secret, err := os.ReadFile(filepath.Join(first.cfg.DataDir, bus.LocalTokenFile))
	require.NoError(t, err)
	post := func(s *served, path, body string, headers map[string]string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(s.mcp, "/mcp")+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Host = "hooks.example.org"
		r.Header.Set("Content-Type", "application/json")
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		got, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		defer func() { _ = got.Body.Close() }()
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		return got.StatusCode, string(text)
	}
	deliver := func(s *served, id string) (int, string) {
		t.Helper()
		return post(s, "/hooks/echo", `{"n":7}`, hooks.Sign(hooks.Standard, hookSecret, id, []byte(`{"n":7}`), time.Now()))
	}
	status, text := post(first, "/api/v1/hooks", "{}", map[string]string{"Authorization": "Bearer " + strings.TrimSpace(string(secret))})
	require.NotEqual(t, http.StatusOK, status, "the other paths check the host: %s", text)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(first.mcp, "/mcp")+"/api/v1/hooks",
		strings.NewReader(fmt.Sprintf(`{"name":"echo","definition":%s,"secret":%q}`, echoHook, hookSecret)))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	require.Equal(t, http.StatusOK, got.StatusCode)

	status, text = deliver(second, "msg_1")
	assert.Equal(t, http.StatusAccepted, status, text)
	status, text = post(second, "/hooks/echo", "{}", nil)
	assert.Equal(t, http.StatusUnauthorized, status, text)
	first.shutDown()
	require.Eventually(t, func() bool {
		status, text = deliver(second, "msg_1")
		return status != http.StatusServiceUnavailable
	}, time.Minute, time.Millisecond, "%s", text)
	assert.Equal(t, http.StatusOK, status, text)
	assert.Contains(t, text, `"result":"duplicate"`)
	status, text = deliver(second, "msg_2")
	assert.Equal(t, http.StatusAccepted, status, text)
}
