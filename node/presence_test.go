package node_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// patientStep is a step with a call whose agent may be silent for longer than any test takes.
func patientStep(effect string) string {
	return `
orch: v1
name: for an agent that is killed
steps:
  - {id: a, tool: AGENT_TASK, effect: ` + effect + `, heartbeat: 1h, retry: {max_attempts: 3, initial: 1ms, max: 1ms}, with: {title: do it, requires: [build]}}
`
}

// claimAs claims a call as one process of an agent.
func claimAs(t *testing.T, cred peer.Credential, instance string, has ...work.Ref) []agents.Assignment {
	t.Helper()
	status, answer := say(t, cred, agents.TasksPath, agents.Claim{Free: 1, Has: has, Instance: instance, Wait: 30 * time.Second})
	require.Equal(t, http.StatusOK, status, answer)
	var w agents.Work
	require.NoError(t, json.Unmarshal([]byte(answer), &w))
	return w.Calls
}

func beatAs(t *testing.T, cred peer.Credential, instance string, has ...work.Ref) (int, string) {
	t.Helper()
	b := agents.Heartbeat{Instance: instance}
	for _, ref := range has {
		b.Calls = append(b.Calls, work.CallHeartbeat{Ref: ref})
	}
	return say(t, cred, agents.StatusPath, b)
}

func stepOf(t *testing.T, n *node.Node, id events.TaskID) api.StepView {
	t.Helper()
	task, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	return task.Steps[0]
}

// A call that one process of an agent has confirmed is lost at once when another process uses the agent's credential. It is
// repeated, or in doubt, long before its lease expires. Late reports of the former process are refused.
func TestAgentStartsAnew(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 3, "build")
	id := submit(t, n.API(), patientStep("idempotent"))
	first := claimAs(t, ada, "one")
	require.Len(t, first, 1)
	status, answer := beatAs(t, ada, "one", first[0].Ref)
	require.Equal(t, http.StatusOK, status, answer)

	var second []agents.Assignment
	require.Eventually(t, func() bool { second = claimAs(t, ada, "two"); return len(second) == 1 }, time.Minute, time.Millisecond)
	assert.Equal(t, work.Ref{Task: id, Step: "a", Attempt: 2}, second[0].Ref)
	for _, late := range []string{agents.StatusPath, agents.TasksPath} {
		status, answer = post(t, ada, late, `{"instance":"one"`+map[bool]string{true: `,"free":1`}[late == agents.TasksPath]+`}`)
		assert.Equal(t, http.StatusConflict, status, answer)
	}
	status, _ = say(t, ada, agents.ResultsPath, agents.Report{Ref: first[0].Ref, Result: json.RawMessage("1")})
	assert.Equal(t, http.StatusConflict, status)
	status, answer = beatAs(t, ada, "two", second[0].Ref)
	require.Equal(t, http.StatusOK, status, answer)

	write := submit(t, n.API(), patientStep("write"))
	third := claimAs(t, ada, "two", second[0].Ref)
	require.Len(t, third, 1)
	status, answer = beatAs(t, ada, "two", second[0].Ref, third[0].Ref)
	require.Equal(t, http.StatusOK, status, answer)
	status, answer = beatAs(t, ada, "three", second[0].Ref) // it continues with that one
	require.Equal(t, http.StatusOK, status, answer)
	assert.NotContains(t, answer, "stop")
	assert.Equal(t, statemachine.StepInDoubt, stepOf(t, n, write).State)
	status, answer = say(t, ada, agents.ResultsPath, agents.Report{Ref: second[0].Ref, Result: json.RawMessage("2")})
	require.Equal(t, http.StatusOK, status, answer)
	assert.Equal(t, statemachine.Done, result(t, n.API(), id).State)

	status, answer = beatAs(t, ada, strings.Repeat("x", 65))
	assert.Equal(t, http.StatusBadRequest, status, answer)
	status, _ = beatAs(t, ada, strings.Repeat("x", 64))
	assert.Equal(t, http.StatusOK, status)
}

// A call in a lost answer to one process is sent again to the next. Nobody has confirmed it, so nobody has started it.
func TestCallThatNobodyNamedComesAgain(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 1, "build")
	submit(t, n.API(), patientStep("write"))
	first := claimAs(t, ada, "one")
	require.Len(t, first, 1)
	again := claimAs(t, ada, "two")
	require.Len(t, again, 1)
	assert.Equal(t, first[0].Ref, again[0].Ref)
}

// An agent that announces its end is offline at once, until it is heard of again.
func TestAgentSaysGoodbye(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 1, "build")
	for range 2 {
		status, answer := say(t, ada, agents.StatusPath, agents.Heartbeat{})
		require.Equal(t, http.StatusOK, status, answer)
		assert.Equal(t, agents.Idle, statusOf(t, n, "ada"))
		status, answer = say(t, ada, agents.StatusPath, agents.Heartbeat{Leaving: true})
		require.Equal(t, http.StatusOK, status, answer)
		assert.Equal(t, agents.Offline, statusOf(t, n, "ada"))
		all, err := n.Agents().Agents(t.Context())
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now(), all[0].LastSeen, time.Minute)
	}
}

// A report must not be empty. It may be repeated, also after a restart of the node.
func TestReportsOfAgents(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP = "127.0.0.1:0"
	n := start(t, cfg)
	ada := enrol(t, n, "ada", 1, "build")
	id := submit(t, n.API(), agentStep)
	calls := given(t, ada)
	status, answer := say(t, ada, agents.ResultsPath, agents.Report{Ref: calls[0].Ref})
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Contains(t, answer, `"REQUIRED_FIELD"`)
	assert.Contains(t, answer, `"result"`)
	said := agents.Report{Ref: calls[0].Ref, Summary: "done"}
	status, answer = say(t, ada, agents.ResultsPath, said)
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, statemachine.Done, result(t, n.API(), id).State)
	before := commits(t, n, id)
	for range 2 {
		status, answer = say(t, ada, agents.ResultsPath, said)
		assert.Equal(t, http.StatusOK, status, answer)
		for _, other := range []agents.Report{{Result: json.RawMessage(`1`), Summary: "done"}, {Result: json.RawMessage(`null`)}, {Error: "no"}, {Release: true}} {
			other.Ref = said.Ref
			status, answer = say(t, ada, agents.ResultsPath, other)
			assert.Equal(t, http.StatusConflict, status, answer)
		}
		assert.Equal(t, before, commits(t, n, id), "the log has it once")
		require.NoError(t, n.Stop(t.Context()))
		n = start(t, cfg)
		ada.URL = strings.TrimSuffix(n.FaceURL(), "/mcp")
	}
}

// A call that is returned without a reason gets a full sentence as its reason.
func TestCallGivenBackWithoutAWord(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 1, "build")
	id := submit(t, n.API(), agentStep)
	calls := given(t, ada)
	status, answer := say(t, ada, agents.ResultsPath, agents.Report{Ref: calls[0].Ref, Release: true})
	require.Equal(t, http.StatusOK, status, answer)
	step := stepOf(t, n, id)
	require.NotNil(t, step.Error)
	assert.Equal(t, "the agent ada has given the call back", step.Error.Message)
}

// An unknown path, or a method other than POST, gets an error in the usual form.
func TestPathsOfAgents(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	url := strings.TrimSuffix(n.FaceURL(), "/mcp")
	for _, test := range []struct {
		method, path, allow string
		status              int
		code                fault.Code
	}{
		{http.MethodGet, agents.TasksPath, http.MethodPost, http.StatusMethodNotAllowed, fault.InvalidRequest},
		{http.MethodDelete, agents.StatusPath, http.MethodPost, http.StatusMethodNotAllowed, fault.InvalidRequest},
		{http.MethodPost, "/agents/none", "", http.StatusNotFound, fault.NotFound},
		{http.MethodGet, "/agents/", "", http.StatusNotFound, fault.NotFound},
		{http.MethodPost, agents.TasksPath + "/", "", http.StatusNotFound, fault.NotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, url+test.path, nil)
		require.NoError(t, err)
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		require.NoError(t, err)
		var f fault.Error
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&f), test.path)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, test.status, answer.StatusCode, test.path)
		assert.Equal(t, test.code, f.Code, test.path)
		assert.NotEmpty(t, f.Message)
		assert.Equal(t, test.allow, answer.Header.Get("Allow"), test.path)
		assert.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	}
}

// The chain keeps a worker for each existing agent, and the one that vets outputs.
func TestWorkersOfAgentsThatAreGone(t *testing.T) {
	t.Parallel()
	living := agents.Roster{Actors: map[string]bool{"agent:ada": true}}
	assert.Equal(t, []string{"agent:", "agent:ada"}, node.Kept(living, "agent:", "agent:ada", "agent:bob"))
}
