package system_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/tools/system"
	"github.com/orch-dev/orch/tools/toolstest"
)

type object = map[string]any

// world is a fake node: each component answers as configured.
type world struct {
	skills []system.Tool
	agents []agents.View
	uses   map[string]system.Uses
	asked  []system.QueueRequest
	queue  []system.QueuedTask
	stats  system.QueueStats
	parts  map[string]system.Part
	more   []system.Part
	paused bool
	fail   error
}

func (w *world) config() system.Config {
	return system.Config{Node: func() *system.Node {
		return &system.Node{
			Version: "1.2.3", Agents: w, Queue: w, Usage: w, Health: w,
			Skills: func(context.Context, events.TaskID) ([]system.Tool, error) { return w.skills, w.fail },
		}
	}}
}

func (w *world) Agents(context.Context) ([]agents.View, error) { return w.agents, w.fail }
func (w *world) Tool(name string) system.Uses                  { return w.uses[name] }
func (w *world) Agent(name string) system.Uses                 { return w.uses["agent:"+name] }
func (w *world) Tools() map[string]system.Uses                 { return w.uses }

func (w *world) Queue(_ context.Context, r system.QueueRequest) ([]system.QueuedTask, system.QueueStats, error) {
	w.asked = append(w.asked, r)
	return w.queue, w.stats, w.fail
}

func (w *world) part(name string) system.Part {
	if p, ok := w.parts[name]; ok {
		return p
	}
	return system.Part{Name: name, Status: system.Up, Latency: time.Millisecond}
}

func (w *world) NATS(context.Context) system.Part      { return w.part("nats") }
func (w *world) JetStream(context.Context) system.Part { return w.part("jetstream") }
func (w *world) Servers(context.Context) []system.Part { return w.more }
func (w *world) Firebase(context.Context) system.Part  { return w.part("firebase") }
func (w *world) GitHub(context.Context) system.Part    { return w.part("github") }
func (w *world) Process() system.Process {
	return system.Process{Uptime: time.Minute, Memory: 12.5, CPU: 3, Paused: w.paused}
}

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// call calls a tool of the family and validates its output against the schema of the specification.
func call(t *testing.T, cfg system.Config, name string, args object) (object, error) {
	t.Helper()
	for _, tool := range system.Tools(cfg) {
		if tool.Spec().Name != name {
			continue
		}
		raw, err := json.Marshal(args)
		require.NoError(t, err)
		checked, err := tool.Check(raw)
		if err != nil {
			return nil, err
		}
		out, err := tool.Call(context.Background(), &tools.Env{Task: "TASK_me", Now: func() time.Time { return at }}, checked)
		if err != nil {
			return nil, err
		}
		toolstest.Output(t, tool, out)
		var o object
		require.NoError(t, json.Unmarshal(out, &o))
		return o, nil
	}
	require.Fail(t, "no such tool", name)
	return nil, nil
}

// S3-002, S3-003; A-88 adds the dependencies, S3-007 the errors by their code.
func TestSchemasAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	var names []string
	for _, tool := range system.Tools(system.Config{}) {
		names = append(names, tool.Spec().Name)
		assert.True(t, tool.Spec().AtNode)
		toolstest.Specified(t, tool, "testdata/seed003.json", "dependencies", "summary.error", "metrics.errors", "skills.errors")
	}
	assert.Equal(t, []string{"system.listSkills", "system.getAgents", "system.getTaskQueue", "system.getSystemStatus"}, names)
}

func TestWithoutANode(t *testing.T) {
	t.Parallel()
	for _, tool := range system.Tools(system.Config{}) {
		_, err := call(t, system.Config{Node: func() *system.Node { return nil }}, tool.Spec().Name, object{})
		require.ErrorIs(t, err, &fault.Error{Code: fault.ToolUnavailable})
	}
}

type old struct{ tools.Tool }

func (o old) Spec() tools.Spec { s := o.Tool.Spec(); s.Deprecated = true; return s }

func skilled() *world {
	w := &world{uses: map[string]system.Uses{
		"FILE_READ": {Count: 4, Successes: 3, LastUsed: at}, "agent:ada": {Count: 2, Successes: 2, LastUsed: at},
	}}
	for _, f := range builtin.Families(builtin.Config{}) {
		for _, tool := range f.Tools {
			if tool.Spec().Name == "append" {
				tool = old{tool}
			}
			w.skills = append(w.skills, system.Tool{Tool: tool, Category: f.Category, Author: "orch", Version: "1.2.3"})
		}
	}
	w.agents = []agents.View{{Member: agents.Member{Name: "ada", Profile: agents.Profile{ID: "a1", Type: "analyst", Version: "2.0.0", Capabilities: []agents.Capability{
		{Name: "forecasting", Category: "analysis", Parameters: map[string]any{"horizon": 3}},
	}}}, Status: agents.Idle}}
	return w
}

func list(t *testing.T, from object, name string) []object {
	t.Helper()
	var all []object
	items, ok := from[name].([]any)
	require.True(t, ok, "%v", from)
	for _, v := range items {
		o, ok := v.(object)
		require.True(t, ok)
		all = append(all, o)
	}
	return all
}

// S3-100 to S3-102.
func TestListSkills(t *testing.T) {
	t.Parallel()
	w := skilled()
	all, err := call(t, w.config(), "system.listSkills", object{"limit": 1000})
	require.NoError(t, err)
	listed := list(t, all, "skills")
	total := len(w.skills) // one is deprecated, one is of the agent
	assert.InDelta(t, total, all["total"], 0)
	assert.Len(t, listed, total)
	by := map[any]object{}
	for _, s := range listed {
		by[s["id"]] = s
	}
	assert.NotContains(t, by, "append", "deprecated")
	read := by["FILE_READ"]
	assert.InDelta(t, 0.75, read["successRate"], 0)
	assert.Equal(t, "2026-01-02T03:04:05Z", read["lastUsed"])
	assert.Equal(t, "files", read["category"])
	assert.Equal(t, "1.2.3", read["version"])
	assert.Equal(t, false, read["deprecated"])
	assert.Contains(t, read["parameters"], "properties")
	assert.NotContains(t, by["FILE_WRITE"], "successRate", "who was never called has none")
	agent := by["agent:a1/forecasting"]
	assert.Equal(t, "forecasting", agent["name"])
	assert.Equal(t, "ada", agent["author"])
	assert.InDelta(t, 1, agent["successRate"], 0)
	assert.Contains(t, all["categories"], "analysis")
	assert.Contains(t, all["categories"], "files")

	whole, err := call(t, w.config(), "system.listSkills", object{"includeDeprecated": true})
	require.NoError(t, err)
	assert.InDelta(t, total+1, whole["total"], 0)
}

func TestListSkillsFiltersAndPages(t *testing.T) {
	t.Parallel()
	w := skilled()
	ids := func(args object) ([]any, object) {
		out, err := call(t, w.config(), "system.listSkills", args)
		require.NoError(t, err)
		var all []any
		for _, s := range list(t, out, "skills") {
			all = append(all, s["id"])
		}
		return all, out
	}
	found, out := ids(object{"search": "file_R"})
	assert.Equal(t, []any{"FILE_READ"}, found)
	assert.InDelta(t, 1, out["total"], 0)
	found, _ = ids(object{"search": "ANALYST"})
	assert.Equal(t, []any{"agent:a1/forecasting"}, found, "the search looks into descriptions, whatever the case")
	git, out := ids(object{"category": "git"})
	assert.Len(t, git, 5)
	assert.Contains(t, out["categories"], "files", "the categories are those of all skills")
	page, out := ids(object{"category": "git", "limit": 2, "offset": 1})
	assert.Equal(t, git[1:3], page)
	assert.InDelta(t, 5, out["total"], 0)
	page, out = ids(object{"category": "git", "offset": 9})
	assert.Empty(t, page)
	assert.InDelta(t, 5, out["total"], 0)
	for _, args := range []object{{"limit": 0}, {"limit": 1001}, {"offset": -1}} {
		_, err := call(t, w.config(), "system.listSkills", args)
		require.ErrorIs(t, err, &fault.Error{Code: fault.ValidationError})
	}
}

// S3-105, S3-106, A-84: filters select agents, the summary counts all, and metrics are included on request.
func TestGetAgents(t *testing.T) {
	t.Parallel()
	w := &world{}
	for i, status := range []agents.Status{agents.Active, agents.Idle, agents.Busy, agents.Offline, agents.Error} {
		id := string(rune('a' + i))
		v := agents.View{Member: agents.Member{Name: "n" + id, Profile: agents.Profile{ID: id, Type: []string{"analyst", "developer"}[i%2], MaxTasks: 3}}, Status: status, Current: i}
		for _, c := range []string{"x", "y", "z"}[:min(i, 3)] {
			v.Capabilities = append(v.Capabilities, agents.Capability{Name: c, Category: "k"})
		}
		w.agents = append(w.agents, v)
	}
	w.agents[1].LastSeen, w.agents[1].Uptime = at, time.Minute
	w.agents[1].Record = agents.Record{Completed: 3, Failed: 1, Busy: 8 * time.Second}
	for want, args := range map[string]object{
		"abcde": {}, "a": {"status": "active"}, "b": {"status": "idle"}, "c": {"status": "busy"}, "d": {"status": "offline"}, "e": {"status": "error"},
		"ace": {"type": "analyst"}, "cde": {"capabilities": []string{"y", "x"}}, "de": {"capabilities": []string{"z"}},
		"bd": {"type": "developer", "capabilities": []string{"x"}}, "": {"capabilities": []string{"x", "other"}},
	} {
		out, err := call(t, w.config(), "system.getAgents", args)
		require.NoError(t, err)
		var found []any
		for _, a := range list(t, out, "agents") {
			found = append(found, a["id"])
			assert.NotContains(t, a, "metrics")
		}
		assert.Equal(t, want, fmt.Sprint(found...), "%v", args)
		assert.Equal(t, object{"total": 5.0, "active": 1.0, "idle": 1.0, "busy": 1.0, "offline": 1.0, "error": 1.0}, out["summary"])
	}
	out, err := call(t, w.config(), "system.getAgents", object{"status": "idle", "includeMetrics": true})
	require.NoError(t, err)
	assert.Equal(t, object{
		"id": "b", "name": "nb", "type": "developer", "status": "idle", "capabilities": []any{"x"}, "currentTasks": 1.0, "maxTasks": 3.0,
		"lastSeen": "2026-01-02T03:04:05Z", "metrics": object{"tasksCompleted": 3.0, "successRate": 0.75, "avgResponseTime": 2000.0, "uptime": 60.0},
	}, list(t, out, "agents")[0])
	_, err = call(t, w.config(), "system.getAgents", object{"status": "away"})
	require.ErrorIs(t, err, &fault.Error{Code: fault.ValidationError})
}

// S3-110, S3-111: the request is passed to the queue, and its result is returned.
func TestGetTaskQueue(t *testing.T) {
	t.Parallel()
	deadline := at.Add(time.Hour)
	w := skilled()
	w.queue = []system.QueuedTask{{
		ID: "TASK_1", Type: "research", Requires: []string{"forecasting"}, AssignedTo: "ada", Priority: "high", Status: "blocked", State: "BLOCKED",
		Block: "dependency", Reason: "waits", Name: "n", Summary: "s", Queue: "q", CreatedAt: at, Deadline: &deadline, DependsOn: []events.TaskID{"TASK_0"},
	}}
	w.stats = system.QueueStats{Total: 3, Pending: 1, Assigned: 0, InProgress: 1, Blocked: 1, Wait: 1500 * time.Millisecond, Oldest: &w.queue[0].CreatedAt}
	out, err := call(t, w.config(), "system.getTaskQueue", object{"agentId": "a1", "priority": "high", "status": "blocked", "type": "research", "includeAssigned": true})
	require.NoError(t, err)
	assert.Equal(t, system.QueueRequest{
		Agent: "ada", AgentType: "analyst", Capabilities: []string{"forecasting"}, Priority: "high", Status: "blocked", Type: "research", IncludeAssigned: true, Limit: 20, Except: "TASK_me",
	}, w.asked[0])
	assert.Equal(t, object{
		"id": "TASK_1", "type": "research", "priority": "high", "status": "blocked", "title": "n", "description": "s",
		"requiredCapabilities": []any{"forecasting"}, "assignedTo": "a1", "createdAt": "2026-01-02T03:04:05Z", "deadline": "2026-01-02T04:04:05Z",
		"dependencies": []any{"TASK_0"}, "metadata": object{"agent": "ada", "state": "BLOCKED", "block": "dependency", "reason": "waits", "queue": "q"},
	}, list(t, out, "tasks")[0])
	assert.Equal(t, object{
		"total": 3.0, "pending": 1.0, "assigned": 0.0, "inProgress": 1.0, "blocked": 1.0, "avgWaitTime": 1500.0, "oldestTask": "2026-01-02T03:04:05Z",
	}, out["queueStats"])
	w.queue[0].AssignedTo = "removed"
	out, err = call(t, w.config(), "system.getTaskQueue", object{})
	require.NoError(t, err)
	assert.Equal(t, "removed", list(t, out, "tasks")[0]["assignedTo"], "an agent that was removed has no id")
	_, err = call(t, w.config(), "system.getTaskQueue", object{"agentId": "nobody"})
	require.ErrorIs(t, err, &fault.Error{Code: fault.NotFound})
	for _, args := range []object{{"limit": 0}, {"limit": 101}, {"priority": "medium"}, {"status": "done"}} {
		_, err := call(t, w.config(), "system.getTaskQueue", args)
		require.ErrorIs(t, err, &fault.Error{Code: fault.ValidationError})
	}
}

// S3-122: the rule, with each failing component.
func TestSystemStatusRule(t *testing.T) {
	t.Parallel()
	down := func(name string) system.Part { return system.Part{Name: name, Status: system.Down, Why: "it fails"} }
	for _, tc := range []struct {
		name   string
		world  world
		status string
		level  any
	}{
		{"all well", world{}, "healthy", nil},
		{"not configured", world{parts: map[string]system.Part{"github": {Name: "github", Status: system.Off}, "firebase": {Name: "firebase", Status: system.Off}}}, "healthy", nil},
		{"a server that is off", world{more: []system.Part{{Name: "s", Status: system.Off}}}, "healthy", nil},
		{"paused", world{paused: true}, "healthy", "info"},
		{"a server", world{more: []system.Part{down("s")}}, "degraded", "warning"},
		{"github", world{parts: map[string]system.Part{"github": down("github")}}, "degraded", "warning"},
		{"firebase", world{parts: map[string]system.Part{"firebase": down("firebase")}}, "degraded", "warning"},
		{"the log", world{parts: map[string]system.Part{"jetstream": down("jetstream")}}, "critical", "critical"},
		{"nats", world{parts: map[string]system.Part{"nats": down("nats")}, more: []system.Part{down("s")}}, "critical", "critical"},
	} {
		out, err := call(t, tc.world.config(), "system.getSystemStatus", object{})
		require.NoError(t, err, tc.name)
		assert.Equal(t, tc.status, out["status"], tc.name)
		assert.Equal(t, "2026-01-02T03:04:05Z", out["timestamp"])
		if tc.level == nil {
			assert.NotContains(t, out, "alerts", tc.name)
			continue
		}
		assert.Equal(t, tc.level, list(t, out, "alerts")[0]["level"], tc.name)
	}
}

// S3-120, S3-121, A-85, A-88: the components and their units.
func TestSystemStatusParts(t *testing.T) {
	t.Parallel()
	w := skilled()
	w.uses = map[string]system.Uses{
		"FILE_READ":     {Count: 3, Successes: 2, Took: 3 * time.Second},
		"firebase.read": {Count: 1, Took: time.Second, Errors: map[fault.Code]uint64{fault.FirebaseError: 1}},
	}
	w.stats.Total = 7
	w.parts = map[string]system.Part{"github": {Name: "github", Status: system.Up, Latency: 20 * time.Millisecond, Limit: &system.Limit{Limit: 60, Remaining: 59, ResetAt: at}}}
	w.more = []system.Part{{Name: "s", Status: system.Up, Latency: time.Millisecond}}
	out, err := call(t, w.config(), "system.getSystemStatus", object{"includeDependencies": true})
	require.NoError(t, err)
	assert.Equal(t, object{
		"activeAgents": 1.0, "tasksInQueue": 7.0, "avgResponseTime": 1000.0, "successRate": 0.5, "uptime": 60.0, "memoryUsage": 12.5, "cpuUsage": 3.0,
		"errors": object{"FIREBASE_ERROR": 1.0},
	}, out["metrics"])
	assert.Equal(t, object{
		"firebase": object{"status": "up", "latency": 1.0, "errors": 1.0},
		"github":   object{"status": "up", "latency": 20.0, "rateLimit": object{"limit": 60.0, "remaining": 59.0, "reset_at": "2026-01-02T03:04:05Z"}},
	}, out["services"])
	assert.Equal(t, object{
		"nats": object{"name": "nats", "status": "up", "latency": 1.0}, "jetstream": object{"name": "jetstream", "status": "up", "latency": 1.0},
		"servers": []any{object{"name": "s", "status": "up", "latency": 1.0}},
	}, out["dependencies"])
	assert.Equal(t, "1.2.3", out["version"])
	small, err := call(t, w.config(), "system.getSystemStatus", object{"includeServices": false, "includeMetrics": false})
	require.NoError(t, err)
	for _, name := range []string{"services", "metrics", "dependencies"} {
		assert.NotContains(t, small, name)
	}
}
