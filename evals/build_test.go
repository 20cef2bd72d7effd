package evals_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/evals"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

const recorded = "TASK_01JD0000000000000000000000"

// conversation returns a conversation with calls that a record keeps, and others.
func conversation() api.ConversationReply {
	done := statemachine.StepSucceeded
	return api.ConversationReply{
		ID: recorded, Step: "review", State: done, Models: []string{"m/x", "m/y"}, Instructions: "Use ${{ nothing }}.", Prompt: "Look at ${{ this }}.", Tools: []string{"FILE_READ", "FILE_WRITE", "RESULT_READ", "HANDOFF"},
		Total: 2, Used: events.Spent{NanoUSD: 20_000_000, Tokens: 900, Calls: 6},
		Turns: []api.TurnView{{Turn: 1, Calls: []api.TurnCall{
			{Tool: "FILE_READ", Args: `{"file_path":"/a"}`, State: done, Result: "milk"},
			{Tool: "FILE_READ", Args: `{"file_path":"/b"}`, State: statemachine.StepFailed, Failed: true, Error: fault.New(fault.NotFound, "is not there").WithField("file_path").WithHint("look")},
			{Tool: "FILE_READ", Args: `{"file_path":"/c"}`, State: done, Result: "x\n[4 of 9 bytes are shown]"},
			{Tool: "FILE_READ", Args: `{"file_path`, State: statemachine.StepFailed, Failed: true, Error: fault.New(fault.InvalidFormat, "no JSON")},
			{Tool: "FILE_WRITE", Args: "", State: done, Result: `{"ok":true}`},
			{Tool: "FILE_WRITE", Args: "{}", State: statemachine.StepFailed, Failed: true, Error: fault.New(fault.Forbidden, "no").WithReason("NO_STUB")},
		}}, {Turn: 2, Differs: []string{"the prompt"}}},
	}
}

func record(t *testing.T) *evals.Record {
	t.Helper()
	temperature := 0.5
	spec := &events.Agent{MaxTurns: 9, MaxTokens: 100, Temperature: &temperature, Result: events.Inline([]byte(`{"type":"object"}`)), Context: &events.Context{CompactAt: 4000, Keep: 2}, Limit: events.Spent{NanoUSD: 5e8, Tokens: 7000, Calls: 40}}
	rec, err := evals.NewRecord(conversation(), spec, api.TaskView{Inputs: []byte(`{"file":"/a"}`), Steps: []api.StepView{
		{Key: "review", Duration: time.Second, Output: []byte(`{"text":"{}","result":{}}`)},
	}})
	require.NoError(t, err)
	return rec
}

func TestNewRecord(t *testing.T) {
	t.Parallel()
	rec := record(t)
	assert.Equal(t, []plan.Stub{
		{Tool: "FILE_READ", Args: json.RawMessage(`{"file_path":"/a"}`), Output: json.RawMessage(`"milk"`)},
		{Tool: "FILE_READ", Args: json.RawMessage(`{"file_path":"/b"}`), Error: &plan.StubError{Code: "NOT_FOUND", Message: "file_path is not there", Hint: "look"}},
		{Tool: "FILE_WRITE", Args: json.RawMessage(`{}`), Output: json.RawMessage(`"{\"ok\":true}"`)},
	}, rec.Calls)
	assert.Equal(t, 1, rec.Cut)
	o := rec.Outcome
	assert.Equal(t, []any{0.02, int64(900), 2, time.Second, "{}", []string{"the prompt"}}, []any{o.USD, o.Tokens, o.Turns, o.Took, o.Text, o.Differs})
	assert.Equal(t, []bool{false, false, false, false, false, true}, refused(o))

	long := conversation()
	long.Turns[0].Calls[0].Step, long.Turns[0].Calls[2].Step, long.Turns[0].Calls[4].Step = "review.t1.c1", "review.t1.c3", "review.t1.c5"
	rec, err := evals.NewRecord(long, &events.Agent{}, api.TaskView{Steps: []api.StepView{
		{Key: "review.t1.c1", Output: []byte(`{"b":1, "a":2}`)},
		{Key: "review.t1.c3", Output: []byte(`"xxxxxxxxx"`)},
		{Key: "review.t1.c5", Output: []byte(`{"$omitted":"the answer would be too large","size":9}`)},
	}})
	require.NoError(t, err)
	assert.Zero(t, rec.Cut)
	assert.Equal(t, []string{`"{\"b\":1, \"a\":2}"`, "", `"xxxxxxxxx"`, `"{\"ok\":true}"`}, []string{
		string(rec.Calls[0].Output), string(rec.Calls[1].Output), string(rec.Calls[2].Output), string(rec.Calls[3].Output),
	}, "the whole output where it is known, as the model sees it")

	for want, change := range map[string]func(c *api.ConversationReply){
		"is in TASK_2, whose result it has": func(c *api.ConversationReply) { c.ReusedFrom = "TASK_2" },
		"has not asked its model":           func(c *api.ConversationReply) { c.Total = 0 },
		"too large for a case":              func(c *api.ConversationReply) { c.Prompt += "\n[10 of 20 bytes are shown]" },
	} {
		c := conversation()
		change(&c)
		_, err := evals.NewRecord(c, &events.Agent{}, api.TaskView{})
		assert.ErrorContains(t, err, want)
	}
}

func refused(o evals.Outcome) (all []bool) {
	for _, c := range o.Calls {
		all = append(all, c.Refused)
	}
	return all
}

// built returns the agent of the plan of each run, which is checked as a plan, and its inputs.
func built(t *testing.T, source string, rec *evals.Record) (agents []*plan.Agent, inputs []map[string]any) {
	t.Helper()
	s, err := evals.Read("set.yaml", []byte(source))
	require.NoError(t, err)
	runs, err := s.Runs(func(string) (map[string]any, error) {
		return map[string]any{"description": "Reads.", "model": "m/file", "chat": true, "fallback": []any{"m/z"}, "prompt": "File: ${{ inputs.prompt }}", "tools": []any{"FILE_READ"}}, nil
	}, map[string]*evals.Record{recorded + "/": rec})
	require.NoError(t, err)
	for _, r := range runs {
		if r.Variant.Recorded {
			assert.Nil(t, r.Plan)
			continue
		}
		p, _, err := plan.Load("p.json", r.Plan, plan.Options{})
		require.NoError(t, err)
		agents = append(agents, p.Steps[0].Agent)
		var in map[string]any
		require.NoError(t, json.Unmarshal(r.Inputs, &in))
		inputs = append(inputs, in)
	}
	return agents, inputs
}

func TestRunsOfPrompts(t *testing.T) {
	t.Parallel()
	agents, inputs := built(t, `
agent: reviewer
variants: [{name: base}, {name: model, model: m/new}, {name: words, prompt: "Now: ${{ inputs.prompt }} ${{ inputs.more }}", fallback: [m/a], model: m/b, budget: {usd: 2}}]
cases: [{name: a, prompt: look, inputs: {more: x}, calls: [{tool: FILE_READ, output: 1}]}]
budget: {tokens: 1000, on_exceeded: ask}
repeat: 2
tools: {FILE_WRITE: live, "FILE_*": refuse}
`, nil)
	require.Len(t, agents, 6)
	base, model, words := agents[0], agents[2], agents[4]
	assert.Equal(t, agents[0], agents[1], "each run of a case is the same")
	assert.Equal(t, []any{"m/file", []string{"m/z"}, "File: ${{ inputs.prompt }}"}, []any{base.Model, base.Fallback, base.Prompt})
	assert.Equal(t, 1000, base.Budget.Tokens)
	assert.NotEqual(t, plan.OnExceededAsk, base.Budget.OnExceeded, "there is nobody to ask")
	assert.Equal(t, "m/new", model.Model)
	assert.Empty(t, model.Fallback, "the answers of other models would be taken for its own")
	assert.Equal(t, []any{[]string{"m/a"}, 2.0}, []any{words.Fallback, words.Budget.USD})
	assert.Equal(t, map[string]any{"prompt": "look", "more": "x"}, inputs[0])
	assert.Equal(t, false, base.Chat, "nobody goes on with the conversation")
	require.Len(t, base.Stubs.Calls, 1)
	assert.False(t, base.Stubs.Makes("FILE_WRITE", true), "the last mode counts")
	assert.False(t, base.Stubs.Makes("FILE_READ", true))
	assert.True(t, base.Stubs.Makes("GREP_SEARCH", true))
	assert.False(t, base.Stubs.Makes("BASH_EXECUTE", false), "what may have effects is refused by default")
}

func TestRunsOfRecords(t *testing.T) {
	t.Parallel()
	agents, inputs := built(t, `
variants: [{name: before, recorded: true}, {name: again, model: m/new}, {name: file, agent: reviewer}]
cases: [{name: a, task: `+recorded+`, tools: {FILE_WRITE: live, FILE_READ: recorded}}]
`, record(t))
	require.Len(t, agents, 2)
	again, file := agents[0], agents[1]
	assert.Equal(t, []any{"m/new", 9, 100, 0.5, []string{"FILE_READ", "FILE_WRITE"}}, []any{again.Model, again.MaxTurns, again.MaxTokens, *again.Temperature, again.Tools})
	assert.JSONEq(t, `{"type":"object"}`, string(again.Result))
	assert.Equal(t, &plan.Context{CompactAt: 4000, Keep: 2}, again.Context)
	assert.Equal(t, plan.Budget{USD: 0.5, Tokens: 7000, Calls: 40}, plan.Budget{USD: again.Budget.USD, Tokens: again.Budget.Tokens, Calls: again.Budget.Calls})
	assert.Equal(t, map[string]any{
		"file": "/a", "prompt": "Look at ${{ this }}.", "recorded_prompt": "Look at ${{ this }}.", "recorded_instructions": "Use ${{ nothing }}.",
	}, inputs[0], "recorded texts are no templates")
	assert.Equal(t, "${{ inputs.recorded_prompt }}", file.Prompt, "the recorded prompt is what the prompt of a file had become")
	assert.Equal(t, "m/file", file.Model)
	assert.Len(t, again.Stubs.Calls, 2, "calls that are live are not answered from the record")
	assert.Equal(t, recorded, again.Stubs.From)
	assert.False(t, again.Stubs.Makes("FILE_READ", true))
	assert.True(t, again.Stubs.Makes("FILE_WRITE", false))
}

func TestRunsThatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	s, err := evals.Read("set.yaml", []byte("agent: {prompt: x}\nvariants: [{name: v}]\ncases: [{name: a, prompt: b}]\n"))
	require.NoError(t, err)
	_, err = s.Runs(nil, nil)
	require.ErrorContains(t, err, "a, v: the agent has no model")
	s, err = evals.Read("set.yaml", []byte("agent: gone\ncases: [{name: a, prompt: b}]\n"))
	require.NoError(t, err)
	_, err = s.Runs(func(string) (map[string]any, error) { return nil, errors.New("no such file") }, nil)
	require.Error(t, err)
}

func TestReport(t *testing.T) {
	t.Parallel()
	s, err := evals.Read("set.yaml", []byte("agent: a\nvariants: [{name: base}, {name: new}]\ncases: [{name: a, prompt: x}, {name: b, prompt: x}]\nrepeat: 2\nmin_rate: 0.5\n"))
	require.NoError(t, err)
	run := func(c, v string, nr int, ok bool, usd float64) evals.Outcome {
		return evals.Outcome{Case: c, Variant: v, Nr: nr, OK: ok, USD: usd, Tokens: 100, Turns: 2, Took: time.Second}
	}
	all := []evals.Outcome{
		run("a", "base", 1, true, 0.4), run("a", "base", 2, true, 0.4), run("a", "new", 1, true, 0.1), run("a", "new", 2, false, 0.1),
		run("b", "base", 1, false, 0.4), run("b", "base", 2, true, 0.4), run("b", "new", 1, true, 0.1),
		{Case: "b", Variant: "new", Nr: 2, OK: true, NotRun: "x"},
	}
	r := s.Report("r1", all)
	assert.True(t, r.OK, "half of the runs suffice")
	base, other := r.Variants[0], r.Variants[1]
	assert.Nil(t, base.Change)
	assert.Equal(t, evals.Tally{Runs: 4, Passed: 3, Rate: 0.75, USD: 1.6, Tokens: 100, Turns: 2, Took: time.Second}, base.Tally)
	assert.InDelta(t, 0, other.Change.Rate, 1e-9)
	assert.InDelta(t, 0.1875, *other.Change.USD, 1e-9)
	assert.InDelta(t, 1, *other.Change.Tokens, 1e-9)
	assert.Equal(t, [2][]string{{"b"}, {"a"}}, [2][]string{other.Better, other.Worse})
	assert.Equal(t, evals.Cell{Variant: "new", OK: true, Tally: evals.Tally{Runs: 2, Passed: 1, Rate: 0.5, USD: 0.2, Tokens: 100, Turns: 2, Took: time.Second}}, r.Cases[0].Cells[1])
	all[3].OK, all[2].OK = false, false
	assert.False(t, s.Report("r1", all).OK)
	for i := range all {
		all[i].USD = 0
	}
	assert.Nil(t, s.Report("r1", all).Variants[1].Change.USD, "there is no ratio to nothing")
}
