package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// everyStep returns a task with steps in all states.
func everyStep() api.TaskView {
	return api.TaskView{
		ID: taskID, Name: "nightly \x1b[2J", Summary: "Builds everything", State: statemachine.InProgress, Priority: "high",
		Labels: map[string]string{"team": "core", "env": "ci"}, CreatedAt: at(-125), UpdatedAt: at(-1), Deadline: new(at(3600)),
		Inputs: json.RawMessage(`{"repo":"/src","depth":3}`), Output: json.RawMessage(`{"text":"a\nb"}`),
		Error: fault.New(fault.ExecFailed, "make: *** no rule").WithHint("look at the Makefile"),
		Steps: []api.StepView{
			{Key: "fetch", Kind: "tool", Tool: "GIT_STATUS", State: statemachine.StepSucceeded, Duration: 840 * time.Millisecond},
			{Key: "each", Kind: "for_each", State: statemachine.StepRunning, Since: new(at(-60))},
			{
				Key: "each[0].build", Kind: "tool", Tool: "BASH_EXECUTE", State: statemachine.StepRunning, Attempt: 3, Tries: 2,
				Since: new(at(-12)), Progress: &work.Progress{Done: 3, Total: 10, Message: "linking"},
			},
			{
				Key: "each[1].build", Kind: "tool", Tool: "BASH_EXECUTE", State: statemachine.StepPending, Attempt: 1,
				Due: new(at(30)), Error: fault.New(fault.Timeout, "it took too long"),
			},
			{Key: "ask", Kind: "wait", State: statemachine.StepRunning, Signal: "go", Since: new(at(-5)), Due: new(at(600))},
			{Key: "sub", Kind: "run", State: statemachine.StepRunning, Child: "TASK_01KE0000000000000000000001", Since: new(at(-3))},
			{Key: "push", Kind: "tool", Tool: "GIT_PUSH", State: statemachine.StepInDoubt, Reason: "the worker was lost"},
			{Key: "deploy", Kind: "tool", Tool: "BASH_EXECUTE", State: statemachine.StepFailed, Error: fault.New(fault.ExecFailed, "exit \x1b[31m1")},
			{Key: "queued", Kind: "tool", Tool: "FILE_READ", State: statemachine.StepReady},
			{Key: "skipped", Kind: "tool", Tool: "FILE_READ", State: statemachine.StepSkipped, Reason: "its condition is false"},
			{Key: "gone", Kind: "set", State: statemachine.StepCancelled},
		},
	}
}

func TestGetShowsEveryStep(t *testing.T) {
	t.Parallel()
	p := newProbe(t, &fakeSession{task: everyStep()})
	require.Zero(t, p.run(t.Context(), []string{"get", "@last"}))
	golden(t, "get.txt", p.out.String())
	assert.NotContains(t, p.out.String(), "\x1b")
	assert.Empty(t, p.err.String())
}

func TestGetAsJSONAndName(t *testing.T) {
	t.Parallel()
	p := newProbe(t, &fakeSession{task: everyStep()})
	require.Zero(t, p.run(t.Context(), []string{"get", "@last", "--json"}))
	var back api.TaskView
	require.NoError(t, json.Unmarshal(p.out.Bytes(), &back))
	assert.Equal(t, "nightly \x1b[2J", back.Name)
	p = newProbe(t, &fakeSession{task: everyStep()})
	require.Zero(t, p.run(t.Context(), []string{"get", "@last", "-o", "name"}))
	assert.Equal(t, string(taskID)+"\n", p.out.String())
}

func TestListInEveryForm(t *testing.T) {
	t.Parallel()
	s := &fakeSession{list: api.ListReply{Next: "c2", Tasks: []api.Summary{
		{ID: taskID, Name: "nightly", State: statemachine.Blocked, CreatedAt: at(-90), UpdatedAt: at(-1), Reason: "waits\nfor input", Paused: true},
		{ID: "TASK_01KE0000000000000000000001", Name: strings.Repeat("long", 20), State: statemachine.Done, UpdatedAt: at(-86400 * 3)},
	}}}
	for _, form := range []string{"text", "json", "jsonl", "name"} {
		p := newProbe(t, s)
		require.Zero(t, p.run(t.Context(), []string{"list", "-o", form}))
		golden(t, "list."+form, p.out.String())
	}
}

// Every kind of event has a description, and none of them lets control characters from outside reach the terminal.
func TestEveryKindIsDescribed(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, kind := range events.Kinds() {
		var e events.Event
		data := `{"step":"s\u001b","attempt":2,"name":"n\n","reason":"r\r","tool":"T","worker":"w","message":"m\nx","level":"INFO","at":"2026-01-02T12:00:00Z",` +
			`"error":{"name":"TIMEOUT","message":"late"},"task":"TASK_X","state":"DONE","child":"TASK_Y","from":"TASK_Z","as":"retry","by":"ada","signal":"go","path":"/p","sha256":"0123456789abcdef","id":"i","items":[1,2],"duration":1500000,` +
			`"approval":"APR_1","by":"ada","how":"M\u001b","expires_at":"2026-01-02T12:00:00Z","rationale":"w\u001b","approver":"user:bob","key":"k\u001b","kind":"elicitation","action":"accept\u001b","note":{"job":"j\u001b"}}`
		if kind == events.CheckpointCreated || kind == events.CheckpointRestored {
			data = `{"id":"i","name":"n","state":{},"at":"2026-01-02T12:00:00Z"}`
		}
		if kind == events.ApprovalRequested { // it is from people
			data = strings.Replace(data, `"from":"TASK_Z"`, `"from":["user:bob"]`, 1)
		}
		require.NoError(t, json.Unmarshal([]byte(`{"kind":"`+string(kind)+`","data":`+data+`}`), &e), "%s", kind)
		lines = append(lines, describe(e).line(7, noon))
	}
	text := strings.Join(lines, "\n") + "\n"
	golden(t, "events.txt", text)
	assert.NotContains(t, text, "\x1b")
	assert.Len(t, strings.Split(strings.TrimSpace(text), "\n"), len(events.Kinds()))
}

// S0-151: an entry of the log is one line, whatever its message holds.
func TestLogEntriesCannotBeForged(t *testing.T) {
	t.Parallel()
	s := &fakeSession{commits: []api.CommitView{
		{Rev: 1, At: at(0), Events: []events.Event{{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "n"}}}},
		{Rev: 2, At: at(1), Events: []events.Event{
			{Kind: events.TaskStarted, Data: &events.Moved{}},
			{Kind: events.StepReady, Data: &events.Ready{Step: "a", Tool: "LOG_WRITE", Attempt: 1}},
			{Kind: events.StepCalled, Data: &events.Called{Step: "a", Attempt: 1, Worker: "w"}},
			{Kind: events.LogWritten, Data: &events.Logged{
				Step: "a", Level: "WARN", At: at(1), Message: "x\n[2026-01-02T12:00:01.000Z] [IN_PROGRESS] [INFO] y\r\x1b[2K",
			}},
			{Kind: events.StepSucceeded, Data: &events.Succeeded{Step: "a", Attempt: 1, Duration: time.Second}},
			{Kind: events.TaskFailed, Data: &events.Moved{}},
			{Kind: events.StepFailed, Data: &events.StepError{Step: "a", Error: fault.New(fault.Timeout, "late")}},
		}},
	}}
	p := newProbe(t, s)
	require.Zero(t, p.run(t.Context(), []string{"log", "@last"}))
	golden(t, "logs.txt", p.out.String())
	p = newProbe(t, s)
	require.Zero(t, p.run(t.Context(), []string{"logs", "@last", "--json"}))
	var e logEntry
	first, _, _ := strings.Cut(p.out.String(), "\n")
	require.NoError(t, json.Unmarshal([]byte(first), &e))
	assert.Equal(t, "a: calls LOG_WRITE", e.Message)
}

func TestReplayVerdicts(t *testing.T) {
	t.Parallel()
	r := api.ReplayReply{Commits: 3, Events: 1234, Chain: true, Live: new(true), Duration: 1500 * time.Microsecond}
	assert.Equal(t, "chain ok, 3 commits, 1,234 events, 0 tool calls, fold == live (1ms)", replayLine(r))
	r.Live = nil
	assert.Equal(t, "chain ok, 3 commits, 1,234 events, 0 tool calls (1ms)", replayLine(r))
	r.Live = new(false)
	p := newProbe(t, &fakeSession{replay: r})
	assert.Equal(t, exitInternal, p.run(t.Context(), []string{"replay", "@last"}))
	assert.Contains(t, p.err.String(), "DATA_LOSS")
	assert.Contains(t, p.out.String(), "fold DIFFERS from live")
}

func TestVerifyFindsProblems(t *testing.T) {
	t.Parallel()
	p := newProbe(t, &fakeSession{})
	assert.Equal(t, exitInternal, p.run(t.Context(), []string{"verify"}))
	assert.Equal(t, "ORCH_EVENTS: a record is damaged\nnothing is lost: KV_ORCH_META: another one\ntasks: 2\n", p.out.String())
	assert.Contains(t, p.err.String(), "the log has 1 problem (DATA_LOSS)")
}

func TestBackupAndRestoreSay(t *testing.T) {
	t.Parallel()
	p := newProbe(t, &fakeSession{})
	p.errTTY = true
	require.Zero(t, p.run(t.Context(), []string{"backup", "."}))
	file := filepath.Join(p.dir, "orch-20260102T120000Z.backup")
	assert.Equal(t, "2,048 KiB saved in "+file+"\nbring it back with: orch restore "+file+"\n", p.out.String())
	assert.Equal(t, "\rhalf\x1b[K\r\x1b[K", p.err.String())
	p = newProbe(t, &fakeSession{})
	require.Zero(t, p.run(t.Context(), []string{"restore", "x.backup", "--data-dir", "/d", "--replace"}))
	assert.Equal(t, "1 task with 2 commits restored to /d and checked\nwhat was there lies in /d.before\n", p.out.String())
	assert.Equal(t, exitUsage, p.run(t.Context(), []string{"backup", "x", "--with-credentials", "--server", "nats://elsewhere:4222"}))
}

func TestExplain(t *testing.T) {
	t.Parallel()
	p := newProbe(t, &fakeSession{explain: api.ExplainReply{Causes: []api.Cause{
		{Kind: "no_worker", Sentence: "no worker serves queue builds", Next: "orch worker --queue builds"},
		{Kind: "retry", Sentence: "step a is tried again at \x1bnoon"},
	}}})
	require.Zero(t, p.run(t.Context(), []string{"why", "@last"}))
	assert.Equal(t, "no worker serves queue builds\n  try: orch worker --queue builds\nstep a is tried again at \\x1bnoon\n", p.out.String())
}

func TestColoursOnlyWhereTheyAreWanted(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	assert.Equal(t, screen.Style{Color: true}, p.style(true))
	assert.Equal(t, screen.Style{}, p.style(false))
	p.getenv = func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] }
	assert.Equal(t, screen.Style{}, p.style(true))
}

func TestDoctorOnFullStoreWithLostWorker(t *testing.T) {
	t.Parallel()
	status := api.StatusReply{Version: "v1", Ready: true, StartedAt: at(-60), Workers: []api.WorkerView{
		{Name: "ada", SeenAt: at(-1)}, {Name: "bob", SeenAt: at(-3600), Silent: true},
	}}
	status.SetRefusal(fault.New(fault.DiskFull, "the disk has 3 bytes free").WithHint("free some space"), at(-30))
	p := newProbe(t, &fakeSession{status: status})
	assert.Equal(t, exitInternal, p.run(t.Context(), []string{"doctor"}))
	assert.Regexp(t, `FAIL  store +it takes nothing since 2026-01-02T11:59:30.*: DISK_FULL: the disk has 3 bytes free\n +mend: free some space\n`, p.out.String())
	assert.Regexp(t, `OK    worker +1 worker; bob is gone, last heard of at `, p.out.String())
	status.Workers = status.Workers[1:]
	p = newProbe(t, &fakeSession{status: status})
	p.run(t.Context(), []string{"doctor"})
	assert.Regexp(t, `FAIL  worker +the node has none any more, so no call can run; bob is gone`, p.out.String())
	p = newProbe(t, &fakeSession{status: status})
	p.run(t.Context(), []string{"doctor", "--min-free", "1000000000"})
	assert.Regexp(t, `FAIL  disk +.* MiB free for .*; below 1,000,000,000 MiB \(min_free\) the log takes nothing\n`, p.out.String())
}

func TestDoctorNamesProvidersThatAreNotAsked(t *testing.T) {
	t.Parallel()
	until := at(15)
	p := newProbe(t, &fakeSession{status: api.StatusReply{Version: "v1", Ready: true, Store: "ok", StartedAt: at(-60), Workers: []api.WorkerView{{Name: "ada", SeenAt: at(-1)}}, Providers: []api.ProviderView{
		{Name: "claude", State: "closed", Failures: 2, Error: "cut"},
		{Name: "openai", State: "open", Failures: 6, Error: "503 Service Unavailable", Until: &until},
	}}})
	p.run(t.Context(), []string{"doctor"})
	assert.Regexp(t, `FAIL  models +openai has failed 6 times in a row and is asked again at 2026-01-02T12:00:15Z: 503 Service Unavailable\n +mend: check the provider: orch models test openai/MODEL\n`, p.out.String())
	assert.NotContains(t, p.out.String(), "claude")
}

// The list of models says which providers the running node does not ask for a while.
func TestModelsListNamesProvidersThatAreNotAsked(t *testing.T) {
	t.Parallel()
	const settings = `--models={"providers":{"claude":{"wire":"anthropic"},"local":{"wire":"gemini"},"openai":{"wire":"openai"}}}`
	until := at(15)
	status := api.StatusReply{Providers: []api.ProviderView{
		{Name: "claude", State: "closed", Failures: 2, Error: "cut"},
		{Name: "openai", State: "open", Failures: 6, Error: "503", Until: &until},
	}}
	p := newProbe(t, &fakeSession{status: status})
	require.Zero(t, p.run(t.Context(), []string{"models", "list", settings}), p.err)
	assert.Regexp(t, `claude .* closed: failed 2 times: cut\n`, p.out.String())
	assert.Regexp(t, `local .* closed\n`, p.out.String())
	assert.Regexp(t, `openai .* open: not asked until 12:00:15Z, failed 6 times: 503\n`, p.out.String())
	p = newProbe(t, &fakeSession{status: status})
	require.Zero(t, p.run(t.Context(), []string{"models", "list", settings, "--json"}), p.err)
	assert.Contains(t, p.out.String(), `"until": "2026-01-02T12:00:15Z"`)
	p = newProbe(t)
	require.Zero(t, p.run(t.Context(), []string{"models", "list", settings}), p.err)
	assert.NotContains(t, p.out.String(), "closed")
	assert.Empty(t, p.err.String())
}

func TestDoctorSaysWhatToMend(t *testing.T) {
	t.Parallel()
	s := &fakeSession{
		status: api.StatusReply{Version: "v1", Ready: true, Store: "the log refuses to append", Durability: "fsync", StartedAt: at(-10)},
		list:   api.ListReply{Tasks: []api.Summary{{UpdatedAt: at(3600)}}},
		asked: map[string]func(any) any{"list": func(any) any {
			return []node.Server{
				{MCPTool: registry.MCPTool{Name: "git", Status: registry.Ready, Enabled: true}, Blocked: 2},
				{MCPTool: registry.MCPTool{Name: "mail", Status: registry.Offline}},
				{MCPTool: registry.MCPTool{Name: "wiki", Status: registry.Degraded, Enabled: true, LastError: "it has\x1b ended"}},
			}
		}},
	}
	p := newProbe(t, s)
	assert.Equal(t, exitInternal, p.run(t.Context(), []string{"doctor"}))
	assert.Contains(t, p.out.String(), "FAIL  store           the log refuses to append\n")
	assert.Contains(t, p.out.String(), "mend: start one: orch worker")
	assert.Contains(t, p.out.String(), "FAIL  clock")
	assert.Contains(t, p.out.String(), `FAIL  mcp servers     1 ready, 1 degraded, 1 disabled, 2 tools blocked (orch mcp accept) (wiki: it has\x1b ended)`)
	assert.Contains(t, p.out.String(), "mend: orch mcp test wiki\n")
	assert.Contains(t, p.out.String(), "OK    git")
	assert.True(t, s.closed)
	p = newProbe(t, s)
	p.nodes = &fakeNodes{sessions: []session{s}, files: verifyResult{Found: 7, Problems: make([]string, 7)}}
	p.run(t.Context(), []string{"doctor", "-o", "name"})
	assert.Equal(t, strings.Repeat("store files\n", shownProblems)+"mcp servers\nstore\nworker\nclock\n", p.out.String())
}

// The tree shows a long error text of a program in one truncated line, and below it completely.
func TestGetShowsLongErrorsWhole(t *testing.T) {
	t.Parallel()
	long := "it broke:\n" + strings.Repeat("a line of it\n", 40) + "the last line"
	said := errorTexts(api.TaskView{
		Error: fault.New(fault.ToolFailed, "step a: short"),
		Steps: []api.StepView{
			{Key: "a", Error: fault.New(fault.ToolFailed, "short")}, {Key: "b", Error: fault.New(fault.ToolFailed, "%s", long)},
		},
	})
	assert.Equal(t, []string{"", "error: TOOL_FAILED: step a: short", "", "error of b: TOOL_FAILED: it broke:", "  a line of it"}, said[:5])
	assert.Equal(t, "  the last line", said[len(said)-1])
	line := screen.Line(long)
	assert.Equal(t, screen.Brief, utf8.RuneCountInString(line))
	assert.True(t, strings.HasPrefix(line, "it broke: a line of it a line"), line)
	tree := treeRenderer{}.task(api.TaskView{Reason: long, Steps: []api.StepView{{Key: "b", Error: fault.New(fault.ToolFailed, "%s", long)}}})
	for _, l := range tree {
		assert.Less(t, len(l), 2*screen.Brief)
	}
}
