package node_test

import (
	"encoding/json"
	"fmt"
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
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/work"
)

// joins is what an agent says of itself that can do one thing.
func joins(name, capability string) object {
	return object{
		"agentInfo":     object{"name": name, "type": "analyst", "version": "1.2.3"},
		"capabilities":  []object{{"name": capability, "category": "analysis", "parameters": object{"horizon": 3}}},
		"configuration": object{"maxConcurrentTasks": 2},
	}
}

// credentialOf is what the answer to a registration gives an agent.
func credentialOf(t *testing.T, name string, answer object) peer.Credential {
	t.Helper()
	text, err := json.Marshal(answer)
	require.NoError(t, err)
	var got struct {
		AgentID     string
		Credentials struct {
			APIKey, Secret string
			ExpiresAt      time.Time
		}
		Endpoints    struct{ Messages, Tasks, Status string }
		RegisteredAt time.Time
	}
	require.NoError(t, json.Unmarshal(text, &got))
	require.True(t, strings.HasPrefix(got.Credentials.Secret, "orch_"), "the secret is not shown: %s", text)
	assert.NotEmpty(t, got.Credentials.APIKey)
	assert.True(t, got.Credentials.ExpiresAt.After(time.Now()))
	assert.WithinDuration(t, time.Now(), got.RegisteredAt, time.Hour)
	url, ok := strings.CutSuffix(got.Endpoints.Status, "/agents/status")
	require.True(t, ok)
	assert.Equal(t, url+"/agents/tasks", got.Endpoints.Tasks)
	assert.NotEmpty(t, got.Endpoints.Messages)
	return peer.Credential{URL: url, Agent: got.AgentID, Name: name, MaxTasks: 2, Secret: got.Credentials.Secret}
}

// join registers an agent through /rpc.
func (e *endpoint) join(name, capability string) peer.Credential {
	e.t.Helper()
	r := e.call("onboarding.registerAgent", joins(name, capability))
	require.Nil(e.t, r.Error, "%v", r.Error)
	return credentialOf(e.t, name, r.Result)
}

// inSession calls a tool in a session of MCP over HTTP, and returns the result of the call.
func inSession(t *testing.T, n *node.Node, secret, tool string, args any, meta ...object) object {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + secret}}
	opened := send(t, n, http.MethodPost, opening, header)
	require.Equal(t, http.StatusOK, opened.status)
	header.Set("Mcp-Session-Id", opened.session)
	header.Set("Mcp-Protocol-Version", "2025-11-25")
	send(t, n, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header)
	params := object{"name": tool, "arguments": args}
	if len(meta) > 0 {
		params["_meta"] = meta[0]
	}
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
	require.NoError(t, err)
	var result object
	during(t, n, http.MethodPost, string(body), header, func(status int, stream io.Reader) {
		require.Equal(t, http.StatusOK, status)
		text, err := io.ReadAll(stream)
		require.NoError(t, err)
		result = answerIn(t, string(text))
	})
	assert.Equal(t, http.StatusNoContent, send(t, n, http.MethodDelete, "", header).status)
	return result
}

// answerIn finds the result of request 2 in an answer, which is a stream of events or a document.
func answerIn(t *testing.T, text string) object {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		var m struct {
			ID     any
			Result object
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &m) == nil && m.ID == 2.0 {
			return m.Result
		}
	}
	require.FailNow(t, "there is no answer", text)
	return nil
}

// S3-086 to S3-089: who registers through /rpc, or through a session of MCP, gets a credential that works. It is shown
// this once, names are unique, and everybody sees the agent.
func TestAgentsJoin(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	ada := e.join("ada", "forecast")
	plain := joins("bob", "write")
	delete(plain, "configuration")
	answer := inSession(t, e.Node, e.token, "onboarding.registerAgent", plain)
	content, ok := answer["structuredContent"].(object)
	require.True(t, ok, "%v", answer)
	bob := credentialOf(t, "bob", content)
	assert.NotEqual(t, ada.Agent, bob.Agent)
	for _, cred := range []peer.Credential{ada, bob} {
		status, text := say(t, cred, "/agents/status", agents.Heartbeat{})
		assert.Equal(t, http.StatusOK, status, text)
		r := e.post(cred.Secret, `{"jsonrpc":"2.0","id":1,"method":"onboarding.getChecklist","params":{"agentId":"`+cred.Agent+`"}}`)
		assert.Nil(t, r.Error, "the credential is a bearer for /rpc: %v", r.Error)
	}
	r := e.call("onboarding.registerAgent", joins("ada", "other"))
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.Conflict.RPC(), r.Error.Code)
	assert.Equal(t, "agentInfo.name", r.Error.Data["field"])

	r = e.call("system.getAgents", object{"capabilities": []string{"forecast"}})
	require.Nil(t, r.Error, "%v", r.Error)
	list, _ := r.Result["agents"].([]any)
	require.Len(t, list, 1)
	one, _ := list[0].(object)
	assert.Equal(t, []any{ada.Agent, "ada", "analyst", "idle", 2.0}, []any{one["id"], one["name"], one["type"], one["status"], one["maxTasks"]})
	assert.Equal(t, []any{"forecast"}, one["capabilities"])
	assert.NotContains(t, one, "metrics")
	r = e.call("system.getAgents", object{"capabilities": []string{"write"}})
	require.Nil(t, r.Error, "%v", r.Error)
	list, _ = r.Result["agents"].([]any)
	require.Len(t, list, 1)
	one, _ = list[0].(object)
	assert.InDelta(t, 5, one["maxTasks"], 0, "the default of what was left out (S3-004)")
	e.secretsAreGone(ada.Secret, bob.Secret)
}

// secretsAreGone holds that no second look at a task shows a secret, nor the log of the node.
func (e *endpoint) secretsAreGone(secrets ...string) {
	e.t.Helper()
	tasks, err := e.API().List(e.t.Context(), api.ListRequest{})
	require.NoError(e.t, err)
	require.NotEmpty(e.t, tasks.Tasks)
	for _, task := range tasks.Tasks {
		for _, method := range []string{"orch_result", "orch_status"} {
			r := e.call(method, object{"task_id": task.ID})
			require.Nil(e.t, r.Error, "%v", r.Error)
			text, err := json.Marshal(r.Result)
			require.NoError(e.t, err)
			for _, secret := range secrets {
				assert.NotContains(e.t, string(text), secret, method)
			}
		}
	}
	for _, secret := range secrets {
		assert.NotContains(e.t, e.log.String(), secret)
	}
}

// S3-088, S3-148: the credential of an agent ends with its time, on each way.
func TestCredentialOfAnAgentEnds(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	secret := e.issue(bus.NewToken{Name: "cyd", Role: bus.RoleAgent, Life: time.Second, Agent: &agents.Profile{
		ID: "agent-x", Type: "analyst", Version: "1.0.0", MaxTasks: 1, Timeout: time.Minute,
		Capabilities: []agents.Capability{{Name: "a", Category: "b"}},
	}})
	cred := peer.Credential{URL: strings.TrimSuffix(e.FaceURL(), "/mcp"), Secret: secret}
	require.Eventually(t, func() bool {
		status, text := say(t, cred, "/agents/status", agents.Heartbeat{})
		return status == http.StatusUnauthorized && strings.Contains(text, string(fault.TokenExpired))
	}, time.Minute, 50*time.Millisecond)
	r := e.post(secret, `{"jsonrpc":"2.0","id":1,"method":"system.getAgents"}`)
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.TokenExpired.RPC(), r.Error.Code)
}

// forecasts is a plan of work for agents that can forecast.
const forecasts = `
orch: v1
name: look ahead
summary: what the next days bring
labels: {type: analysis}
steps:
  - {id: a, tool: AGENT_TASK, effect: idempotent, with: {title: look ahead, requires: [forecast]}}
`

// queue is what system.getTaskQueue shows, the tasks by id.
func (e *endpoint) queue(args object) map[any]object {
	e.t.Helper()
	r := e.call("system.getTaskQueue", args)
	require.Nil(e.t, r.Error, "%v", r.Error)
	list, _ := r.Result["tasks"].([]any)
	by := map[any]object{}
	for _, v := range list {
		one, _ := v.(object)
		by[one["id"]] = one
	}
	return by
}

// progress is how far an agent is, and what is left to do.
func (e *endpoint) progress(agent string) (progress object, left []any) {
	e.t.Helper()
	r := e.call("onboarding.getChecklist", object{"agentId": agent, "includeCompleted": false})
	require.Nil(e.t, r.Error, "%v", r.Error)
	list, _ := r.Result["checklist"].([]any)
	for _, v := range list {
		one, _ := v.(object)
		assert.Equal(e.t, false, one["completed"])
		left = append(left, one["id"])
	}
	progress, _ = r.Result["progress"].(object)
	return progress, left
}

// S3-090, S3-091, S3-102, S3-105 to S3-112: the way of an agent from its registration to its first work, as the tools tell of it.
func TestTheWayOfAnAgent(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	ada, bob := e.join("ada", "forecast"), e.join("bob", "write")
	r := e.call("onboarding.getChecklist", object{"agentId": "nobody"})
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.NotFound.RPC(), r.Error.Code)
	r = e.call("onboarding.getChecklist", object{"includeCompleted": true})
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.RequiredField.RPC(), r.Error.Code)
	r = e.call("onboarding.getChecklist", object{"agentId": ada.Agent, "includeCompleted": true})
	require.Nil(t, r.Error)
	assert.Contains(t, fmt.Sprint(r.Result["checklist"]), "completed:true", "it has registered")
	progress, left := e.progress(ada.Agent)
	assert.Equal(t, object{"completed": 1.0, "total": 5.0, "percentage": 20.0, "requiredRemaining": 3.0}, progress)
	assert.Equal(t, []any{"heartbeat", "claim", "report", "messages"}, left)
	status, text := say(t, ada, "/agents/status", agents.Heartbeat{})
	require.Equal(t, http.StatusOK, status, text)
	_, left = e.progress(ada.Agent)
	assert.Equal(t, []any{"claim", "report", "messages"}, left)

	first := string(submit(t, e.API(), forecasts))
	require.Eventually(t, func() bool { return e.queue(object{})[first]["requiredCapabilities"] != nil }, time.Minute, 10*time.Millisecond)
	waiting := e.queue(object{"type": "analysis"})[first]
	assert.Equal(t, []any{"forecast"}, waiting["requiredCapabilities"])
	assert.Equal(t, []any{"analysis", "pending", "look ahead", "what the next days bring"}, []any{waiting["type"], waiting["status"], waiting["title"], waiting["description"]})
	assert.NotContains(t, waiting, "assignedTo")
	assert.Contains(t, e.queue(object{"agentId": ada.Agent}), first)
	assert.NotContains(t, e.queue(object{"agentId": bob.Agent}), first, "bob cannot forecast")
	assert.Empty(t, e.queue(object{"type": "other"}))
	assert.Empty(t, e.queue(object{"priority": "high"}))

	calls := given(t, ada)
	assert.Empty(t, e.queue(object{}), "somebody has it")
	assert.Equal(t, ada.Agent, e.queue(object{"includeAssigned": true})[first]["assignedTo"])
	assert.Equal(t, "assigned", e.queue(object{"status": "assigned"})[first]["status"], "the agent has not said that it has it")
	status, text = say(t, ada, "/agents/status", agents.Heartbeat{Calls: []work.CallHeartbeat{{Ref: calls[0].Ref}}})
	require.Equal(t, http.StatusOK, status, text)
	require.Eventually(t, func() bool { return e.queue(object{"status": "in_progress"})[first] != nil }, time.Minute, 10*time.Millisecond)
	assert.Contains(t, e.queue(object{"includeAssigned": true, "agentId": ada.Agent}), first)
	assert.NotContains(t, e.queue(object{"includeAssigned": true, "agentId": bob.Agent}), first)
	status, text = say(t, ada, "/agents/results", agents.Report{Ref: calls[0].Ref, Result: json.RawMessage(`{"sun": true}`)})
	require.Equal(t, http.StatusOK, status, text)
	submit(t, e.API(), forecasts)
	calls = claimSoon(t, ada)
	status, text = say(t, ada, "/agents/results", agents.Report{Ref: calls[0].Ref, Error: "it is cloudy"})
	require.Equal(t, http.StatusOK, status, text)
	e.checkRecord(ada)
}

// claimSoon waits for a call.
func claimSoon(t *testing.T, cred peer.Credential) []agents.Assignment {
	t.Helper()
	var calls []agents.Assignment
	require.Eventually(t, func() bool { calls = claim(t, cred, 1); return len(calls) > 0 }, time.Minute, 10*time.Millisecond)
	return calls
}

// checkRecord holds what the tools tell of an agent that has done one thing well, and one not.
func (e *endpoint) checkRecord(cred peer.Credential) {
	e.t.Helper()
	progress, left := e.progress(cred.Agent)
	assert.Equal(e.t, object{"completed": 4.0, "total": 5.0, "percentage": 80.0, "requiredRemaining": 0.0}, progress)
	assert.Equal(e.t, []any{"messages"}, left)
	r := e.post(cred.Secret, `{"jsonrpc":"2.0","id":1,"method":"MESSAGE_INBOX"}`)
	require.Nil(e.t, r.Error, "%v", r.Error)
	require.Eventually(e.t, func() bool { progress, left = e.progress(cred.Agent); return len(left) == 0 }, time.Minute, 10*time.Millisecond)
	assert.Equal(e.t, object{"completed": 5.0, "total": 5.0, "percentage": 100.0, "requiredRemaining": 0.0}, progress)
	r = e.call("system.listSkills", object{"search": "forecast"})
	require.Nil(e.t, r.Error, "%v", r.Error)
	list, _ := r.Result["skills"].([]any)
	require.Len(e.t, list, 1)
	skill, _ := list[0].(object)
	assert.Equal(e.t, "agent:"+cred.Agent+"/forecast", skill["id"])
	assert.Equal(e.t, []any{"forecast", "analysis", "1.2.3", "ada"}, []any{skill["name"], skill["category"], skill["version"], skill["author"]})
	assert.Equal(e.t, object{"horizon": 3.0}, skill["parameters"])
	assert.InDelta(e.t, 0.5, skill["successRate"], 0, "what the log says of its calls")
	assert.NotEmpty(e.t, skill["lastUsed"])
	r = e.call("system.getAgents", object{"includeMetrics": true, "type": "analyst", "status": "idle"})
	require.Nil(e.t, r.Error, "%v", r.Error)
	list, _ = r.Result["agents"].([]any)
	require.Len(e.t, list, 1)
	one, _ := list[0].(object)
	metrics, _ := one["metrics"].(object)
	assert.InDelta(e.t, 1, metrics["tasksCompleted"], 0)
	assert.InDelta(e.t, 0.5, metrics["successRate"], 0)
	summary, _ := r.Result["summary"].(object)
	assert.Equal(e.t, object{"total": 2.0, "active": 0.0, "idle": 1.0, "busy": 0.0, "offline": 1.0, "error": 0.0}, summary)
}

// A plan that registers several agents, at the same time too, gives the secret of each to whoever submitted it.
func TestPlanRegistersSeveralAgents(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r := e.call("orch_submit", object{"plan": `
orch: v1
name: crew
steps:
  - {id: a, tool: onboarding.registerAgent, with: {agentInfo: {name: ada, type: analyst, version: 1.2.3}, capabilities: [{name: a, category: b}]}}
  - {id: b, needs: [], tool: onboarding.registerAgent, with: {agentInfo: {name: bob, type: analyst, version: 1.2.3}, capabilities: [{name: a, category: b}]}}
  - {id: c, needs: [a, b], tool: onboarding.registerAgent, with: {agentInfo: {name: cyd, type: analyst, version: 1.2.3}, capabilities: [{name: a, category: b}]}}
outputs:
  all: ["${{ steps.a.output }}", "${{ steps.b.output }}", "${{ steps.c.output }}"]
  again: ${{ steps.a.output.credentials.secret }}
`})
	require.Nil(t, r.Error, "%v", r.Error)
	var task string
	for _, field := range []string{"task_id", "id"} {
		if id, ok := r.Result[field].(string); ok {
			task = id
		}
	}
	require.NotEmpty(t, task, "%v", r.Result)
	r = e.call("orch_result", object{"task_id": task, "wait_seconds": 50})
	require.Nil(t, r.Error, "%v", r.Error)
	out, _ := r.Result["output"].(object)
	all, _ := out["all"].([]any)
	require.Len(t, all, 3, "%v", r.Result)
	secrets := map[string]bool{}
	for i, name := range []string{"ada", "bob", "cyd"} {
		answer, _ := all[i].(object)
		cred := credentialOf(t, name, answer)
		status, text := say(t, cred, agents.StatusPath, agents.Heartbeat{})
		assert.Equal(t, http.StatusOK, status, text)
		assert.Equal(t, agents.Idle, statusOf(t, e.Node, name), "it is the secret of %s", name)
		secrets[cred.Secret] = true
		if i == 0 {
			assert.Equal(t, cred.Secret, out["again"])
		}
	}
	assert.Len(t, secrets, 3)
	r = e.call("orch_result", object{"task_id": task})
	text, err := json.Marshal(r)
	require.NoError(t, err)
	for secret := range secrets {
		assert.NotContains(t, string(text), secret, "each is shown once")
		assert.NotContains(t, e.log.String(), secret)
	}
}
