package node_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
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
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// This file tests what agents, and those who register them, cannot reach.

// An agent that is removed while it waits for a call gets none.
func TestRemovedAgentGetsNoCall(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 1, "build")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ada.URL+agents.TasksPath, strings.NewReader(`{"free":1,"wait":30000000000}`))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+ada.Secret)
	answered := make(chan string, 1)
	go func() { answered <- answerTo(r) }()
	require.Eventually(t, func() bool { return statusOf(t, n, "ada") == agents.Idle }, time.Minute, 10*time.Millisecond)
	_, err = n.Agents().Remove(t.Context(), agents.Removal{Agent: "ada", By: "user:test"})
	require.NoError(t, err)
	id := submit(t, n.API(), writeStep)
	assert.NotContains(t, <-answered, string(id), "the claim has ended, or what it was about to get went back")
	require.Eventually(t, func() bool {
		task, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
		return err == nil && task.Steps[0].State == statemachine.StepReady
	}, time.Minute, 10*time.Millisecond, "nobody has begun it")
}

// answerTo sends a request and returns the answer, or the error.
func answerTo(r *http.Request) string {
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// A caller with the credential of workers is no agent, whatever it claims: the calls of agents pass the gates first, and the
// log names agents.
func TestWorkersAreNoAgents(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: cfg.DataDir, User: bus.WorkerUser})
	require.NoError(t, err)
	defer c.Close()
	r := rpc.NewRemote(c)
	ref := work.Ref{Task: submit(t, n.API(), agentStep), Step: "a", Attempt: 1}
	ada := work.Agent{Name: "ada", Type: "developer", Capabilities: []string{"build"}}
	_, asAgent := r.Poll(t.Context(), work.Poll{Worker: "w", Queues: []string{work.AgentsQueue}, Free: 1, Agent: &ada})
	_, byName := r.Poll(t.Context(), work.Poll{Worker: "agent:ada", Queues: []string{work.DefaultQueue}, Free: 1})
	_, beat := r.Heartbeat(t.Context(), work.Heartbeat{Worker: "agent:ada", Calls: []work.CallHeartbeat{{Ref: ref}}})
	for name, err := range map[string]error{
		"poll": asAgent, "name": byName, "beat": beat,
		"start":    r.Start(t.Context(), work.Started{Ref: ref, Worker: "agent:ada"}),
		"report":   r.Report(t.Context(), work.Outcome{Ref: ref, Worker: "agent:ada", Output: json.RawMessage(`{}`)}),
		"hand off": r.Report(t.Context(), work.Outcome{Ref: ref, Worker: "w", HandTo: &events.Agents{}}),
	} {
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err), name)
	}
	assert.Equal(t, 1, commits(t, n, ref.Task))
}

// An agent sees no more than the task that registered it, whoever that was for. The client's face may have shown less than any
// token, and the token may be gone.
func TestAgentsSeeNoMoreThanTheTaskThatRegistersThem(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	plan, err := json.Marshal(`
orch: v1
steps:
  - id: call
    tool: onboarding.registerAgent
    with: {agentInfo: {name: ada, type: analyst, version: 1.2.3}, capabilities: [{name: a, category: b}]}
`)
	require.NoError(t, err)
	shown := []string{"FILE_READ", "onboarding.registerAgent"}
	reply, err := n.API().Submit(t.Context(), api.SubmitRequest{Plan: plan, Actor: "user:test", Tools: shown})
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, result(t, n.API(), reply.ID).State)
	list, err := n.Tokens().ListTokens(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, "ada", list[0].Name)
	assert.Equal(t, shown, list[0].Tools)
	got, err := n.Agents().Collect(t.Context(), agents.Collection{Task: reply.ID, By: "user:test"})
	require.NoError(t, err)
	status, answer := say(t, peer.Credential{URL: strings.TrimSuffix(n.FaceURL(), "/mcp"), Secret: got.Secret}, agents.StatusPath, agents.Heartbeat{})
	assert.Equal(t, http.StatusOK, status, answer)
}
