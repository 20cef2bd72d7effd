package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// enrol registers an agent at a node, and returns its credential.
func enrol(t *testing.T, n *node.Node, name string, most int, capabilities ...string) peer.Credential {
	t.Helper()
	p := agents.Profile{Type: "developer", Version: "1.0.0", MaxTasks: most, Timeout: time.Minute}
	for _, c := range capabilities {
		p.Capabilities = append(p.Capabilities, agents.Capability{Name: c, Category: "test"})
	}
	task := events.NewTaskID(time.Now())
	m, err := n.Agents().Register(t.Context(), agents.Registration{Name: name, Profile: p, Task: task, By: "user:test"})
	require.NoError(t, err)
	got, err := n.Agents().Collect(t.Context(), agents.Collection{Task: task, By: "user:test"})
	require.NoError(t, err)
	return peer.Credential{URL: m.URL, Agent: m.ID, Name: name, MaxTasks: most, Secret: got.Secret, IssuedAt: m.RegisteredAt, ExpiresAt: m.ExpiresAt}
}

// say posts a request as an agent and returns the status and the answer.
func say(t *testing.T, cred peer.Credential, path string, in any) (int, string) {
	t.Helper()
	body, err := json.Marshal(in)
	require.NoError(t, err)
	return post(t, cred, path, string(body))
}

func post(t *testing.T, cred peer.Credential, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, cred.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+cred.Secret)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := c.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(content)
}

func claim(t *testing.T, cred peer.Credential, free int, has ...work.Ref) []agents.Assignment {
	t.Helper()
	status, answer := say(t, cred, "/agents/tasks", agents.Claim{Free: free, Has: has})
	require.Equal(t, http.StatusOK, status, answer)
	var w agents.Work
	require.NoError(t, json.Unmarshal([]byte(answer), &w))
	return w.Calls
}

// given claims until there is a call, as slow as the node may be.
func given(t *testing.T, cred peer.Credential) []agents.Assignment {
	t.Helper()
	status, answer := say(t, cred, "/agents/tasks", agents.Claim{Free: 1, Wait: 30 * time.Second})
	require.Equal(t, http.StatusOK, status, answer)
	var w agents.Work
	require.NoError(t, json.Unmarshal([]byte(answer), &w))
	require.Len(t, w.Calls, 1)
	return w.Calls
}

// withAgents starts a node with HTTP for agents.
func withAgents(t *testing.T) *node.Node {
	t.Helper()
	cfg := config(t)
	cfg.Faces.HTTP = "127.0.0.1:0"
	return start(t, cfg)
}

const agentStep = `
orch: v1
name: for an agent
steps:
  - {id: a, tool: AGENT_TASK, effect: idempotent, with: {title: do it, requires: [build], data: {n: 1}}}
outputs:
  result: ${{ steps.a.output.result }}
`

// An agent claims a call that is for it, renews its lease by heartbeats and reports its end: over HTTP, with its credential
// only.
func TestAgentWorks(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada, bob := enrol(t, n, "ada", 2, "build"), enrol(t, n, "bob", 2, "write")
	id := submit(t, n.API(), agentStep)
	assert.Empty(t, claim(t, bob, 1), "bob cannot build")
	calls := given(t, ada)
	assert.Equal(t, id, calls[0].Task)
	assert.JSONEq(t, `{"title":"do it","requires":["build"],"data":{"n":1}}`, string(calls[0].Args))
	assert.Equal(t, string(id)+"/a", calls[0].Key)

	again := claim(t, ada, 1)
	require.Len(t, again, 1, "the answer was lost: the agent has nothing")
	assert.Equal(t, calls[0].Ref, again[0].Ref)
	assert.Empty(t, claim(t, ada, 1, calls[0].Ref))

	status, answer := say(t, ada, "/agents/status", agents.Heartbeat{Calls: []work.CallHeartbeat{{Ref: calls[0].Ref}}})
	require.Equal(t, http.StatusOK, status, answer)
	assert.JSONEq(t, `{}`, answer)
	assert.Equal(t, agents.Active, statusOf(t, n, "ada"))
	assert.Equal(t, agents.Idle, statusOf(t, n, "bob"))

	status, _ = say(t, bob, "/agents/results", agents.Report{Ref: calls[0].Ref, Result: json.RawMessage(`1`)})
	assert.Equal(t, http.StatusConflict, status, "it is not bob's")
	status, answer = say(t, ada, "/agents/results", agents.Report{Ref: calls[0].Ref, Result: json.RawMessage(`{"token":"ghp_0123456789abcdefghijklmnopqrstuvwxyz"}`)})
	require.Equal(t, http.StatusOK, status, answer)
	r := result(t, n.API(), id)
	assert.Equal(t, statemachine.Done, r.State)
	assert.NotContains(t, string(r.Output), "ghp_", "secrets stay out of the log")
	assert.Equal(t, agents.Idle, statusOf(t, n, "ada"))

	history, err := n.API().History(t.Context(), api.HistoryRequest{ID: id})
	require.NoError(t, err)
	var actors []string
	for _, c := range history.Commits {
		actors = append(actors, c.Actor)
	}
	assert.Contains(t, actors, "agent:ada")
}

func statusOf(t *testing.T, n *node.Node, name string) agents.Status {
	t.Helper()
	all, err := n.Agents().Agents(t.Context())
	require.NoError(t, err)
	for _, v := range all {
		if v.Name == name {
			return v.Status
		}
	}
	t.Fatalf("there is no agent %s", name)
	return ""
}

// S3-087, S3-088: names are unique, secrets are collected once, by whoever asked; a removed agent is refused, and a
// renewed credential ends the one before.
func TestCredentialsOfAgents(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 1, "build")
	_, err := n.Agents().Register(t.Context(), agents.Registration{
		Name: "ada", Task: events.NewTaskID(time.Now()), By: "user:test",
		Profile: agents.Profile{Type: "analyst", Version: "1.0.0", MaxTasks: 1, Timeout: time.Second, Capabilities: []agents.Capability{{Name: "a", Category: "b"}}},
	})
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	task := events.NewTaskID(time.Now())
	_, err = n.Agents().Register(t.Context(), agents.Registration{
		Name: "Bob_2", Task: task, By: "user:test",
		Profile: agents.Profile{Type: "analyst", Version: "1.0.0", MaxTasks: 1, Timeout: time.Second, Capabilities: []agents.Capability{{Name: "a", Category: "b"}}},
	})
	require.NoError(t, err)
	_, err = n.Agents().Collect(t.Context(), agents.Collection{Task: task, By: "user:eve"})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err), "eve did not ask")
	_, err = n.Agents().Collect(t.Context(), agents.Collection{Task: task, By: "user:test"})
	require.NoError(t, err)
	_, err = n.Agents().Collect(t.Context(), agents.Collection{Task: task, By: "user:test"})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err), "it was collected")

	status, answer := say(t, ada, "/agents/credential", struct{}{})
	require.Equal(t, http.StatusOK, status, answer)
	fresh := ada
	require.NoError(t, json.Unmarshal([]byte(answer), &struct {
		Secret *string `json:"secret"`
	}{&fresh.Secret}))
	status, answer = say(t, ada, "/agents/status", agents.Heartbeat{})
	assert.Equal(t, http.StatusUnauthorized, status, answer)
	status, answer = say(t, fresh, "/agents/status", agents.Heartbeat{Error: "no disk, ghp_0123456789abcdefghijklmnopqrstuvwxyz"})
	require.Equal(t, http.StatusOK, status, answer)
	all, err := n.Agents().Agents(t.Context())
	require.NoError(t, err)
	assert.Contains(t, all[1].Problem, "no disk")
	assert.NotContains(t, all[1].Problem, "ghp_", "secrets are shown to nobody")
	assert.Equal(t, agents.Error, statusOf(t, n, "ada"))

	_, err = n.Agents().Remove(t.Context(), agents.Removal{Agent: "ada", By: "user:test"})
	require.NoError(t, err)
	status, _ = say(t, fresh, "/agents/status", agents.Heartbeat{})
	assert.Equal(t, http.StatusUnauthorized, status)
	_, err = n.Agents().Remove(t.Context(), agents.Removal{Agent: "ada", By: "user:test"})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
}

// An invalid request of an agent changes nothing, and the error says what is wrong.
func TestAgentsAreKeptOut(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 1, "build")
	for name, test := range map[string]struct {
		path, body string
		status     int
	}{
		"no JSON":       {"/agents/tasks", `{`, http.StatusBadRequest},
		"two objects":   {"/agents/tasks", `{"free":1}{}`, http.StatusBadRequest},
		"a bracket":     {"/agents/tasks", `{"free":1}]`, http.StatusBadRequest},
		"unknown field": {"/agents/tasks", `{"free":1,"queue":"x"}`, http.StatusBadRequest},
		"wrong type":    {"/agents/tasks", `{"free":"1"}`, http.StatusBadRequest},
		"none":          {"/agents/tasks", `{"free":0}`, http.StatusBadRequest},
		"wait":          {"/agents/tasks", `{"free":1,"wait":-1}`, http.StatusBadRequest},
		"many":          {"/agents/tasks", `{"free":1,"has":[{}` + strings.Repeat(",{}", agents.MaxTasks) + `]}`, http.StatusBadRequest},
		"many beats":    {"/agents/status", `{"calls":[{}` + strings.Repeat(",{}", agents.MaxTasks) + `]}`, http.StatusBadRequest},
		"no task":       {"/agents/results", `{"task":"../x","step":"a","attempt":1,"result":1}`, http.StatusBadRequest},
		"no name":       {"/agents/results", `{"task":"TASK_01JD0000000000000000000000","hand_to":{"agent":"a\u001fb"}}`, http.StatusBadRequest},
		"no type":       {"/agents/results", `{"task":"TASK_01JD0000000000000000000000","hand_to":{"type":"cook"}}`, http.StatusBadRequest},
		"no capability": {"/agents/results", `{"task":"TASK_01JD0000000000000000000000","hand_to":{"requires":["a\u001fb"]}}`, http.StatusBadRequest},
		"requires":      {"/agents/results", `{"task":"TASK_01JD0000000000000000000000","hand_to":{"requires":["a"` + strings.Repeat(`,"a"`, 33) + `]}}`, http.StatusBadRequest},
		"no result":     {"/agents/results", `{"task":"TASK_01JD0000000000000000000000","step":"a","attempt":1,"result":{}}`, http.StatusNotFound},
		// One byte too many: the node closes a connection on which more is on its way, and the client may not see the answer.
		"large":     {"/agents/results", strings.Repeat("x", 5<<20+1), http.StatusBadRequest},
		"elsewhere": {"/agents/none", `{}`, http.StatusNotFound},
	} {
		status, answer := post(t, ada, test.path, test.body)
		assert.Equal(t, test.status, status, "%s: %s", name, answer)
	}
	stranger := ada
	stranger.Secret = "orch_" + strings.Repeat("0", 49)
	status, answer := post(t, stranger, "/agents/tasks", `{"free":1}`)
	assert.Equal(t, http.StatusUnauthorized, status, answer)
	assert.NotContains(t, answer, stranger.Secret)
}

// Two agents share 40 calls of two kinds, each made once.
func TestPeersShareWork(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	var mu sync.Mutex
	made := map[string][]string{}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for name, can := range map[string]string{"ada": "build", "bob": "write"} {
		p, err := peer.New(peer.Config{
			Credential: enrol(t, n, name, 3, can),
			Handler: func(_ context.Context, a agents.Assignment, _ func(work.Progress)) agents.Report {
				mu.Lock()
				defer mu.Unlock()
				made[a.Key] = append(made[a.Key], name)
				return agents.Report{Result: a.Args}
			},
		})
		require.NoError(t, err)
		group.Go(func() { assert.NoError(t, p.Run(ctx)) })
	}
	var ids []events.TaskID
	for range 20 {
		ids = append(ids, submit(t, n.API(), strings.ReplaceAll(agentStep, "effect: idempotent, ", "")), submit(t, n.API(), strings.Replace(agentStep, "[build]", "[write]", 1)))
	}
	for i, id := range ids {
		require.Equal(t, statemachine.Done, result(t, n.API(), id).State)
		mu.Lock()
		assert.Equal(t, []string{[]string{"ada", "bob"}[i%2]}, made[string(id)+"/a"])
		mu.Unlock()
	}
	stop()
	group.Wait()
}

// An agent continues its call after a restart of the node, and its report counts.
func TestAgentOutlivesNode(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP = "127.0.0.1:0"
	n := start(t, cfg)
	ada := enrol(t, n, "ada", 1, "build")
	id := submit(t, n.API(), strings.ReplaceAll(agentStep, "effect: idempotent, ", ""))
	calls := given(t, ada)
	require.NoError(t, n.Stop(t.Context()))

	n = start(t, cfg)
	ada.URL = strings.TrimSuffix(n.FaceURL(), "/mcp")
	status, answer := say(t, ada, "/agents/status", agents.Heartbeat{Calls: []work.CallHeartbeat{{Ref: calls[0].Ref}}})
	require.Equal(t, http.StatusOK, status, answer)
	assert.NotContains(t, answer, "stop")
	status, answer = say(t, ada, "/agents/results", agents.Report{Ref: calls[0].Ref, Result: json.RawMessage("null"), Summary: "done"})
	require.Equal(t, http.StatusOK, status, answer)
	assert.Equal(t, statemachine.Done, result(t, n.API(), id).State)
}

// The secret of a registration is in the answer to whoever requested it, and nowhere in the store.
func TestSecretOfAnAgentIsNotInTheLog(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	task := run(t, n.API(), `
orch: v1
name: register
steps:
  - id: call
    tool: onboarding.registerAgent
    with: {agentInfo: {name: ada, type: analyst, version: 1.2.3}, capabilities: [{name: a, category: b}]}
outputs: {result: "${{ steps.call.output }}"}
`)
	require.Equal(t, statemachine.Done, task.State, "%v", task.Error)
	got, err := n.Agents().Collect(t.Context(), agents.Collection{Task: task.ID, By: "user:test"})
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(got.Secret, "orch_"))
	assert.False(t, bytes.Contains(task.Output, []byte(got.Secret)))
	assert.False(t, bytes.Contains(task.Output, []byte("orch_")))
}

const writeStep = `
orch: v1
name: for an agent that changes something
steps:
  - {id: a, tool: AGENT_TASK, heartbeat: 5s, with: {title: do it, requires: [build]}}
`

// A call that an agent has confirmed is not sent again if the agent was killed and restarted, or if another process uses its
// credential. It may have started, so it is in doubt when its lease expires.
func TestAgentThatForgetsItsCallDoesNotBeginItTwice(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 1, "build")
	id := submit(t, n.API(), writeStep)
	calls := given(t, ada)
	status, answer := say(t, ada, "/agents/status", agents.Heartbeat{Calls: []work.CallHeartbeat{{Ref: calls[0].Ref}}})
	require.Equal(t, http.StatusOK, status, answer)
	assert.Empty(t, claim(t, ada, 1), "it has the call, or had it")
	require.Eventually(t, func() bool {
		task, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
		return err == nil && task.Steps[0].State == statemachine.StepInDoubt
	}, time.Minute, 20*time.Millisecond)
	other := submit(t, n.API(), writeStep)
	calls = given(t, ada) // the slot is free again
	assert.Equal(t, other, calls[0].Task)
}

// A call whose answer was lost is not sent again once the agent no longer holds it.
func TestLostCallOfAnotherDoesNotComeAgain(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 1, "build")
	id := submit(t, n.API(), writeStep)
	given(t, ada)
	_, err := n.API().Cancel(t.Context(), api.CancelRequest{ID: id, Actor: "user:test"})
	require.NoError(t, err)
	assert.Empty(t, claim(t, ada, 1))
}

// An agent can only renew and report calls that it holds.
func TestAgentTakesNothingByTalking(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	bob := enrol(t, n, "bob", 1, "write")
	id := submit(t, n.API(), agentStep)
	ref := work.Ref{Task: id, Step: "a", Attempt: 1}
	_, answer := say(t, bob, "/agents/status", agents.Heartbeat{Calls: []work.CallHeartbeat{{Ref: ref}}})
	assert.Contains(t, answer, `"stop"`)
	status, _ := say(t, bob, "/agents/results", agents.Report{Ref: ref, Result: json.RawMessage(`1`)})
	assert.Equal(t, http.StatusConflict, status)
	given(t, enrol(t, n, "ada", 1, "build"))
	before := commits(t, n, id)
	status, _ = say(t, bob, "/agents/results", agents.Report{Ref: ref, Result: json.RawMessage(`1`)})
	assert.Equal(t, http.StatusConflict, status)
	assert.Equal(t, before, commits(t, n, id), "the history is not for everybody to write in")
}

func commits(t *testing.T, n *node.Node, id events.TaskID) int {
	t.Helper()
	history, err := n.API().History(t.Context(), api.HistoryRequest{ID: id})
	require.NoError(t, err)
	return len(history.Commits)
}

// Agents that a non-operator registers get only calls of that identity's tasks, and see no more tools.
func TestAgentsOfOthersWorkForThem(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	for name, token := range map[string]bus.NewToken{
		"user:sue":  {Name: "sue", Role: bus.RoleSubmitter, Tools: []string{"onboarding.*"}},
		"agent:bot": {Name: "bot", Role: bus.RoleAgent},
		"user:boss": {Name: "boss", Role: bus.RoleOperator},
	} {
		token.Actor = "user:test"
		_, _, err := bus.IssueToken(t.Context(), n.Tokens(), token)
		require.NoError(t, err)
		m, err := n.Agents().Register(t.Context(), agents.Registration{
			Name: token.Name + "-helper", Task: events.NewTaskID(time.Now()), By: name,
			Profile: agents.Profile{Type: "analyst", Version: "1.0.0", MaxTasks: 1, Timeout: time.Second, Capabilities: []agents.Capability{{Name: "a", Category: "b"}}, For: "user:eve"},
		})
		require.NoError(t, err)
		if name == "user:boss" {
			assert.Empty(t, m.For)
			continue
		}
		assert.Equal(t, name, m.For)
	}
	all, err := n.Tokens().ListTokens(t.Context())
	require.NoError(t, err)
	for _, token := range all {
		if token.Name == "sue-helper" {
			assert.Equal(t, []string{"onboarding.*"}, token.Tools)
		}
	}
}

// The files that the parts of a node write are those that the check of the store expects: a healthy store needs no repair.
func TestHealthyStoreHasNothingToMend(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP = "127.0.0.1:0"
	n := start(t, cfg)
	enrol(t, n, "ada", 1, "build")
	for _, call := range []string{
		`{id: call, tool: firebase.write, with: {database: realtime, path: a/b, data: {n: 1}}}`,
		`{id: call, tool: firebase.write, with: {database: firestore, path: a/b, data: {n: 1}}}`,
		`{id: call, tool: MESSAGE_SEND, with: {to: ["agent:ada"], text: hello}}`,
		`{id: call, tool: system.getSystemStatus, with: {}}`,
	} {
		require.Equal(t, statemachine.Done, run(t, n.API(), "orch: v1\nname: a part\nsteps:\n  - "+call+"\n").State, call)
	}
	require.NoError(t, n.Stop(t.Context()))
	for range 2 {
		report, err := bus.Inspect(t.Context(), cfg.DataDir)
		require.NoError(t, err)
		assert.Zero(t, report.Found, "%v", report.Problems)
		assert.Empty(t, report.Mended)
		n = start(t, cfg)
		require.NoError(t, n.Stop(t.Context()))
	}
}
