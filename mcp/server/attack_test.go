package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/statemachine"
)

// narrow are tokens whose text includes the permitted tools: "bot.agent:echo,orch_*", and "eye.agent!" for reading only.
type narrow struct{}

// Verify implements server.Tokens.
func (narrow) Verify(ctx context.Context, token string) (server.Identity, time.Time, error) {
	token, readOnly := strings.CutSuffix(token, "!")
	token, list, ok := strings.Cut(token, ":")
	who, until, err := tokens{}.Verify(ctx, token)
	who.Show.ReadOnly = readOnly
	if ok {
		who.Show.Tools = strings.Split(list, ",")
	}
	return who, until, err
}

// two returns two clients of one face, each with its own session.
func two(t *testing.T, change ...func(*server.Config)) (ada, eve *web) {
	t.Helper()
	n := startNode(t)
	ada = n.web(t, n.face(append(change, func(c *server.Config) { c.HTTP.Tokens = narrow{} })...))
	eve = &web{t: t, url: ada.url, token: "eve.agent"}
	ada.open()
	return ada, eve
}

const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

// S2-009: a ping without a session reveals no session, and ends none.
func TestAPingWithoutASessionTouchesNone(t *testing.T) {
	t.Parallel()
	ada, eve := two(t)
	a := eve.post(ping)
	assert.Equal(t, http.StatusOK, a.status)
	assert.Empty(t, a.session)
	assert.Equal(t, map[string]any{"jsonrpc": "2.0", "id": 7.0, "result": map[string]any{}}, a.message)
	assert.Equal(t, http.StatusOK, ada.post(ping).status, "nothing is kept of the session, and it is still there")
}

// A client that is refused by a session does not change its state.
func TestTheSessionOfSomebodyElseStaysWhole(t *testing.T) {
	t.Parallel()
	sessions := &kept{}
	ada, eve := two(t, func(c *server.Config) { c.Stores.Sessions = sessions })
	eve.session = ada.session
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPost} {
		assert.Equal(t, http.StatusForbidden, eve.do(eve.request(method, ping)).status, method)
	}
	raw, err := sessions.LoadSession(t.Context(), ada.session)
	require.NoError(t, err)
	assert.NotEmpty(t, raw, "it can be opened again after a restart")
}

// A second stream of a session is refused and takes nothing from the first, unless its owner opens it: that one replaces the first.
func TestARefusedStreamTakesNoNotifications(t *testing.T) {
	t.Parallel()
	ada, eve := two(t)
	stream := ada.listen()
	eve.session = ada.session
	assert.Equal(t, http.StatusForbidden, eve.do(eve.request(http.MethodGet, "")).status)
	ada.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{},"task":{}}}`)
	assert.Contains(t, <-stream, "notifications/")
	next := ada.listen()
	for range stream { // it ends
	}
	ada.post(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","arguments":{},"task":{}}}`)
	assert.Contains(t, <-next, "notifications/")
}

// listen opens the stream of the session and returns the messages of it.
func (w *web) listen() <-chan string {
	w.t.Helper()
	resp, err := http.DefaultClient.Do(w.request(http.MethodGet, ""))
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, resp.StatusCode)
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return messages(resp.Body, "notifications/tasks/status")
}

// Requests with unknown session ids leave no state behind, so that they cannot lock others out.
func TestSessionsThatAreNotThereCountForNothing(t *testing.T) {
	t.Parallel()
	ada, eve := two(t)
	for i := range server.MaxSessions {
		eve.session = fmt.Sprint("none", i)
		eve.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	}
	eve.session = ""
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `{"jsonrpc":"2.0","method":"initialize","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":1}}`,
	} {
		for range server.MaxSessions / 4 {
			eve.post(body)
		}
	}
	ada.session = ""
	ada.open()
}

// The size of the stored initialize request is limited.
func TestWhatBeginsASessionIsSmall(t *testing.T) {
	t.Parallel()
	ada, _ := two(t)
	ada.session = ""
	large := strings.Replace(initialize, `"name":"t"`, `"name":"`+strings.Repeat("t", 1<<20)+`"`, 1)
	assert.Equal(t, http.StatusRequestEntityTooLarge, ada.post(large).status)
}

// A token that shows some tools reaches no others by way of a plan.
func TestPlansReachNoMoreThanTheirToken(t *testing.T) {
	t.Parallel()
	ada, eve := two(t)
	call := func(name, args string) string {
		return `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"` + name + `","arguments":` + args + `}}`
	}
	plan := func(text string) string { return call("orch_submit", `{"plan":`+text+`}`) }
	step := func(tool string) string { return `{"orch":"v1","steps":[{"id":"a","tool":"` + tool + `","with":{}}]}` }
	refused := map[string]string{
		"a step":           step("plain"),
		"a verification":   `{"orch":"v1","steps":[{"id":"a","tool":"echo","with":{}}],"verify":[{"id":"v","tool":"plain","with":{}}]}`,
		"what always runs": `{"orch":"v1","steps":[{"id":"a","tool":"echo","with":{}}],"always":[{"id":"v","tool":"plain","with":{}}]}`,
		"a plan inside":    `{"orch":"v1","steps":[{"id":"a","run":{"orch":"v1","name":"in","steps":[{"id":"b","tool":"plain","with":{}}]}}]}`,
		"a child":          `{"orch":"v1","steps":[{"id":"a","tool":"TASK_SPAWN","with":{"prompt":"p","subagent_type":"s"}}]}`,
		"its own list":     `{"orch":"v1","limits":{"tools":["plain","echo"]},"steps":[{"id":"a","tool":"plain","with":{}}]}`,
		"text":             `"orch: v1\nsteps: [{id: a, tool: plain, with: {}}]"`,
	}
	for token, submits := range map[string]bool{
		"eve.agent:echo,orch_*": true, "eve.operator:echo,orch_*": true, "eve.agent:echo": false, "eve.agent:ECHO,orch_*": false,
		"eve.agent!": false, "eve.operator!": false, "eve.viewer": false, "eve.agent:orch_submit": false,
	} {
		eve.token, eve.session = token, ""
		eve.open()
		for name, text := range refused {
			a := eve.post(plan(text))
			assert.NotContains(t, a.body, "TASK_0", token+": "+name)
			assert.NotContains(t, a.body, "INVALID_PLAN", token+": "+name)
		}
		assert.Equal(t, submits, strings.Contains(eve.post(plan(step("echo"))).body, "TASK_"), token)
	}
	eve.token, eve.session = "eve.agent!", ""
	eve.open()
	assert.NotContains(t, eve.post(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`).body, "orch_submit")
	assert.NotContains(t, eve.post(call("orch_cancel", `{"task_id":"TASK_00000000000000000000000000"}`)).body, "there is no task")
	assert.Contains(t, ada.post(plan(step("plain"))).body, "TASK_", "who is not narrowed reaches all")
}

// messages returns the lines of a stream of events that name something.
func messages(stream io.Reader, what string) <-chan string {
	found := make(chan string, 16)
	go func() {
		defer close(found)
		for lines := bufio.NewScanner(stream); lines.Scan(); {
			if strings.Contains(lines.Text(), what) {
				found <- lines.Text()
			}
		}
	}()
	return found
}

// No input of an agent approves anything, including the `allow` of its plans.
func TestThePlanOfAnAgentOpensNothing(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	for role, want := range map[string]statemachine.State{"agent": statemachine.AwaitingApproval, "submitter": statemachine.Done} {
		w.token, w.session = role+"."+role, ""
		w.open()
		path := filepath.Join(n.root, role)
		w.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"orch_submit","arguments":{"name":"` + role + `","plan":{"orch":"v1",
			"allow":{"paths":["` + path + `"]},"steps":[{"id":"a","tool":"FILE_WRITE","with":{"file_path":"` + path + `","content":"x"}}]}}}}`)
		assert.Eventually(t, func() bool {
			return slices.ContainsFunc(n.list(), func(l api.Summary) bool { return l.Name == role && l.State == want })
		}, time.Minute, 10*time.Millisecond, role)
	}
	assert.NoFileExists(t, filepath.Join(n.root, "agent"))
}

// A task stays as narrow as the token that made it.
func TestATaskIsAsNarrowAsItsToken(t *testing.T) {
	t.Parallel()
	_, eve := two(t)
	eve.token = "eve.agent:echo,orch_*"
	eve.open()
	a := eve.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"orch_submit","arguments":{"plan":{"orch":"v1","steps":[{"id":"a","wait":{"signal":"go"}}]}}}}`)
	id := regexp.MustCompile("TASK_[0-9A-Z]{26}").FindString(a.body)
	eve.token = "eve.agent"
	inside := func(tool string) string {
		return eve.post(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"text":"hi"},"_meta":{"orch/taskId":"` + id + `"}}}`).body
	}
	assert.Contains(t, inside("echo"), "hi")
	assert.Contains(t, inside("plain"), "FORBIDDEN")
}

// S2-007: an invalid line is answered, and the connection continues.
func TestStdioOutlivesWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	in, say := io.Pipe()
	hear, out := io.Pipe()
	ended := make(chan error, 1)
	face := n.face()
	go func() { ended <- face.Serve(t.Context(), in, out) }()
	heard := bufio.NewReader(hear)
	for _, line := range []string{
		"hello", "\x00", "null", `{"jsonrpc":"2.0",`, `[` + ping + `]`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":true,"method":"ping"}`,
		strings.Repeat("[", 1<<20), `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("a", server.MaxLine) + `"}}`,
	} {
		_, err := io.WriteString(say, line+"\n")
		require.NoError(t, err)
		got, err := heard.ReadString('\n')
		require.NoError(t, err)
		assert.Contains(t, got, `"error":{"code":-32`, "%.50s", line)
	}
	_, err := io.WriteString(say, initialize+"\r\n")
	require.NoError(t, err)
	got, err := heard.ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, got, `"serverInfo"`)
	require.NoError(t, say.Close())
	assert.NoError(t, <-ended)
}

// When its owner closes a session, its waiting requests end at once.
func TestASessionEndsWithItsRequests(t *testing.T) {
	t.Parallel()
	ada, _ := two(t)
	a := ada.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"hangs","arguments":{},"task":{}}}`)
	id := regexp.MustCompile("TASK_[0-9A-Z]{26}").FindString(a.body)
	ended := make(chan answer, 1)
	go func() {
		ended <- ada.post(`{"jsonrpc":"2.0","id":4,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
	}()
	require.Eventually(t, func() bool {
		return ada.post(`{"jsonrpc":"2.0","id":5,"method":"tasks/get","params":{"taskId":"`+id+`"}}`).status == http.StatusOK && len(ended) == 0
	}, time.Minute, 50*time.Millisecond)
	assert.Equal(t, http.StatusNoContent, ada.do(ada.request(http.MethodDelete, "")).status)
	<-ended
}

// One session cannot use up the subscriptions of all.
func TestASessionSubscribesToSoMuch(t *testing.T) {
	t.Parallel()
	ada, _ := two(t)
	a := ada.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"hangs","arguments":{},"task":{}}}`)
	id := regexp.MustCompile("TASK_[0-9A-Z]{26}").FindString(a.body)
	subscribe := func(uri string) any {
		return code(ada.post(`{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"` + uri + `"}}`))
	}
	for _, uri := range []string{"x:y", "orch://task/" + id + "/none", "orch://task/" + id + "//log"} {
		assert.NotNil(t, subscribe(uri), uri)
	}
	for i := range 100 {
		assert.Nil(t, subscribe(fmt.Sprint("orch://task/", id, "/outputs/", i)))
	}
	assert.NotNil(t, subscribe("orch://task/"+id), "the limit")
}
