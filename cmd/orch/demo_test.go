package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
)

// demoCommit is a commit with events about the agent.
func demoCommit(rev uint64, list ...events.Event) api.CommitView {
	return api.CommitView{Rev: rev, Events: list}
}

func demoAnswer(turn int, output int64) events.Event {
	return events.Event{Kind: events.TurnAnswered, Data: &events.Answered{Step: "agent", Turn: turn, Usage: events.Usage{Input: 1009, Output: output}}}
}

func demoCall(step string) events.Event {
	return events.Event{Kind: events.StepCalled, Data: &events.Called{Step: step}}
}

func TestDemoFollowsTurns(t *testing.T) {
	t.Parallel()
	task := newDemoTask("TASK_1")
	assert.Empty(t, task.apply(demoCommit(1, demoCall("agent.t1.m"))))
	lines := task.apply(demoCommit(2, demoAnswer(1, 4), events.Event{Kind: events.StepReady, Data: &events.Ready{
		Step: "agent.t1.c1", Tool: "FILE_READ", Args: events.Value{Raw: json.RawMessage(`{"file_path":"/a"}`)},
	}}))
	assert.Equal(t, []string{"turn 1  1,009 + 4 tokens", `        FILE_READ {"file_path":"/a"}`}, lines)
	assert.Empty(t, task.apply(demoCommit(3, events.Event{Kind: events.StepReady, Data: &events.Ready{Step: "agent.t2.m", Tool: "MODEL_CALL"}}, demoCall("agent.t1.c1"), demoCall("agent.t2.m"))))
	assert.Equal(t, map[int]int{1: 1, 2: 1}, task.asked)
	lines = task.apply(demoCommit(4, events.Event{Kind: events.TurnLost, Data: &events.LostTurn{Step: "agent", Turn: 2}}))
	assert.Equal(t, []string{"turn 2  the answer is lost, and asked for again"}, lines)
	assert.Equal(t, uint64(4), task.lostAt)
	assert.Nil(t, task.pending)
	assert.Empty(t, task.apply(demoCommit(5, events.Event{Kind: events.ApprovalRequested, Data: &events.Approval{ID: "APR_1", Tool: "GIT_PUSH"}})))
	require.NotNil(t, task.pending)
	assert.Equal(t, "GIT_PUSH", task.pending.Tool)
	assert.Empty(t, task.doubt)
	assert.Empty(t, task.apply(demoCommit(6, events.Event{Kind: events.StepInDoubt, Data: &events.InDoubt{Step: "agent.t7.c1"}})))
	assert.Equal(t, "agent.t7.c1", task.doubt)
	assert.Empty(t, task.ended)
	assert.Empty(t, task.apply(demoCommit(7, events.Event{Kind: events.TaskFailed, Data: &events.Moved{}})))
	assert.Equal(t, events.TaskFailed, task.ended)
	assert.Equal(t, uint64(7), task.rev)
}

func TestDemoTakesTurnsOver(t *testing.T) {
	t.Parallel()
	task := newDemoTask("TASK_2")
	lines := task.apply(demoCommit(1, events.Event{Kind: events.StepReused, Data: &events.Reused{Step: "agent.t1.m"}}, demoAnswer(1, 4)))
	assert.Equal(t, []string{"turn 1  taken over"}, lines)
	assert.Empty(t, task.asked)
}

func TestDemoSelectsLines(t *testing.T) {
	t.Parallel()
	const text = "a 1\nb\nc\nd\na 2\na 3\nb\nc\n"
	assert.Equal(t, []string{"a 1", "b", "c", "d", "a 2", "a 3", "b", "c"}, demoLines{}.of(text))
	assert.Equal(t, []string{"a 1", "a 2", "a 3"}, demoLines{pattern: "^a"}.of(text))
	assert.Equal(t, []string{"a 1", "b", "--", "a 2", "a 3", "b"}, demoLines{pattern: "^a", after: 1}.of(text))
	assert.Equal(t, " | grep -E -A1 '^a'", demoLines{pattern: "^a", after: 1}.filter())
	assert.Equal(t, " | grep -E a", demoLines{pattern: "a"}.filter())
	assert.Empty(t, demoLines{}.filter())
}

func TestDemoChecksAnswers(t *testing.T) {
	t.Parallel()
	before := []events.Answered{{Turn: 1, Usage: events.Usage{Input: 9, Output: 4}}}
	other := []events.Answered{{Turn: 1, Usage: events.Usage{Input: 9, Output: 5}}}
	tests := map[string]struct {
		after []events.Answered
		asked int
		want  string
	}{
		"recorded":     {before, 1, ""},
		"and more":     {append(before[:1:1], other...), 1, ""},
		"other tokens": {other, 1, "the answers before the crash were"},
		"lost":         {nil, 1, "the answers before the crash were"},
		"asked twice":  {before, 2, "turn 1 was asked for 2 times"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := &demoTask{answers: tc.after, asked: map[int]int{1: tc.asked}}
			err := task.checkKept(before)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestDemoEnvironment(t *testing.T) {
	t.Parallel()
	given := []string{"PATH=/bin", "HOME=/home/ada", "ORCH_SERVER=nats://a", "ORCH_KEY=k", "GIT_DIR=/g", "XDG_CONFIG_HOME=/x"}
	got := demoEnviron(given, "/d", []string{"ORCH_KEY"})
	assert.Equal(t, []string{"PATH=/bin", "ORCH_KEY=k", "HOME=/d/home", "ORCH_DATA_DIR=/d/data", "GIT_CONFIG_NOSYSTEM=1"}, got)
}

func TestDemoQuotesWords(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `orch agent ask repair 'Mend the failing test' --at agent.t2 '' 'it'\''s $1'`,
		commandLine("orch", []string{"agent", "ask", "repair", "Mend the failing test", "--at", "agent.t2", "", "it's $1"}))
}

func TestDemoModel(t *testing.T) {
	t.Parallel()
	e := &env{dir: t.TempDir(), getenv: func(name string) string { return map[string]string{"TEAM_KEY": "k"}[name] }}
	e.cfg = config.Config{Root: e.dir, Models: config.Models{
		Providers: map[string]config.ModelProvider{
			"local": {Wire: "openai", URL: "http://127.0.0.1:8080/v1", Key: "env:TEAM_KEY", Idle: time.Minute}, "claude": {Wire: "anthropic", Key: "env:NOTHING"},
		},
		Budgets: []config.ModelBudget{{NanoUSD: 2_500_000_000, Per: "day"}},
		Prices:  map[string]config.ModelPrice{"local/*": {Input: 500, AsOf: "2026-11-01"}, "claude/*": {Input: 3000, AsOf: "2026-11-01"}},
	}}
	m, err := newDemoModel(e, demoOptions{model: "local/qwen", tokens: 7})
	require.NoError(t, err)
	assert.True(t, m.real)
	assert.Equal(t, []string{"TEAM_KEY"}, m.variables)
	assert.Contains(t, m.settings, "\n  providers:\n")
	assert.Contains(t, m.settings, "key: env:TEAM_KEY")
	assert.Contains(t, m.settings, "local/*")
	assert.Contains(t, m.settings, "usd: 2.5")
	assert.NotContains(t, m.settings, "claude")
	assert.Equal(t, "/p has 7", m.fill("PROJECT has TOKENS", "/p"))
	for name, want := range map[string]struct {
		o    demoOptions
		code fault.Code
	}{
		"no provider": {demoOptions{model: "nobody/x", tokens: 1}, fault.NotFound},
		"no key":      {demoOptions{model: "claude/x", tokens: 1}, fault.ValidationError},
		"no name":     {demoOptions{model: "qwen", tokens: 1}, fault.ValidationError},
		"a script":    {demoOptions{model: "script:x", tokens: 1}, fault.InvalidParams},
		"no tokens":   {demoOptions{tokens: 0}, fault.ValidationError},
	} {
		_, err := newDemoModel(e, want.o)
		assert.True(t, fault.Has(err, want.code), "%s: %v", name, err)
	}
}
