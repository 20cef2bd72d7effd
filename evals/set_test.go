package evals_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/evals"
	"github.com/orch-dev/orch/fault"
)

const full = `
agent: {model: m/x, tools: [FILE_READ], budget: {usd: 1, on_exceeded: ask}}
variants:
  - name: base
  - {name: small, model: m/y, instructions: Be brief., tools: [FILE_READ, GREP_SEARCH], max_turns: 3}
  - {name: other, agent: ./other.yaml}
cases:
  - name: finds the bug
    prompt: Review shop.go.
    calls: [{tool: FILE_READ, output: x}]
    tools: {FILE_*: refuse, FILE_READ: live}
    expect:
      - contains: [nil map, /line \d+/]
        not_contains: all is well
      - equals: x
      - result: {path: "bugs[0].line", equals: 7}
      - result: {contains: /x/}
      - tools: [FILE_READ, "GREP_*"]
        not_tools: FILE_WRITE
      - calls: [{tool: FILE_READ, args: {file_path: /shop/}}]
      - {max_usd: 0.05, max_tokens: 5000, max_turns: 4, max_calls: 3, max_time: 1m}
  - {name: refuses, inputs: {file: x}, expect: [{fails: FORBIDDEN}]}
  - {name: recorded, task: TASK_01JD0000000000000000000000/review}
tools: {WEB_FETCH: recorded}
expect: [{max_turns: 10}]
repeat: 3
min_rate: 0.6
budget: {tokens: 1000}
max_usd: 2.5
timeout: 90s
`

func TestRead(t *testing.T) {
	t.Parallel()
	s, err := evals.Read("set.yaml", []byte(full))
	require.NoError(t, err)
	assert.Equal(t, "m/x", s.Agent.Keys["model"])
	require.Len(t, s.Variants, 3)
	assert.Equal(t, map[string]any{"model": "m/y", "instructions": "Be brief.", "tools": []any{"FILE_READ", "GREP_SEARCH"}, "max_turns": 3}, s.Variants[1].Keys)
	assert.Equal(t, "./other.yaml", s.Variants[2].Agent.File)
	require.Len(t, s.Cases, 3)
	assert.Equal(t, []evals.Mode{{Pattern: "FILE_*", Mode: "refuse"}, {Pattern: "FILE_READ", Mode: "live"}}, s.Cases[0].Tools, "in the order of the file")
	assert.Equal(t, [2]string{"TASK_01JD0000000000000000000000", "review"}, [2]string{s.Cases[2].Task, s.Cases[2].Step})
	var names []string
	for _, c := range s.Cases[0].Expect {
		names = append(names, c.Name)
	}
	assert.Equal(t, []string{
		`contains "nil map"`, `contains "/line \\d+/"`, `not_contains "all is well"`, `equals "x"`, "result bugs[0].line equals 7", `result contains "/x/"`,
		"tools FILE_READ", "tools GREP_*", "not_tools FILE_WRITE", `calls FILE_READ {"file_path":"/shop/"}`,
		"max_usd $0.05", "max_tokens 5000", "max_turns 4", "max_calls 3", "max_time 1m0s",
	}, names)
	assert.Equal(t, []any{3, 0.6, 2.5, "90s", map[string]any{"tokens": 1000}}, []any{s.Repeat, s.MinRate, s.MaxUSD, s.Timeout, s.Budget})
	short, err := evals.Read("set.yaml", []byte("agent: reviewer\ncases: [{name: a, prompt: b}]\n"))
	require.NoError(t, err)
	assert.Equal(t, []any{1, 1.0, "30m", "reviewer", "agent"}, []any{short.Repeat, short.MinRate, short.Timeout, short.Agent.File, short.Variants[0].Name})
}

func TestSetsThatAreWrong(t *testing.T) {
	t.Parallel()
	const good = "agent: a\ncases: [{name: a, prompt: b}]\n"
	for src, want := range map[string]string{
		"":                                   "the set is empty: it needs cases",
		"a: [":                               "line 1: did not find expected node content",
		good + "---\na: 1\n":                 "the set has a second document",
		"[]":                                 "line 1: must be an object",
		"agent: a\n":                         "line 1: the set needs cases",
		good + "colour: red\n":               "line 3: colour: there is no such key; the keys are agent, budget, cases, expect, max_usd, min_rate, repeat, timeout, tools, variants",
		good + "agent: b\n":                  `line 3: the key "agent" is wrong, or occurs twice`,
		good + "repeat: 0\n":                 "line 3: repeat: must be a whole number from 1 to 100",
		good + "repeat: [1]\n":               "line 3: repeat: must be a whole number from 1 to 100",
		good + "min_rate: 1.5\n":             "line 3: min_rate: must be a number above 0, at most 1",
		good + "max_usd: .nan\n":             "line 3: max_usd: must be a number above 0, at most 1e+06",
		good + "timeout: soon\n":             `line 3: timeout: "soon" is not a duration such as 90s or 10m`,
		good + "budget: 3\n":                 "line 3: budget: must be an object",
		good + "tools: {FILE_READ: often}\n": `line 3: tools.FILE_READ: "often" is none of recorded, live, refuse`,
		good + "tools: {'[': live}\n":        `line 3: tools.[: "[" is no name of a tool, and no pattern such as FILE_*`,
		good + "tools: {'!A': live}\n":       `line 3: tools.!A: "!A" is no name of a tool, and no pattern such as FILE_*`,
		good + "variants: [{model: m/x}]\n":  "line 3: variants[0]: a variant needs a name",
		good + "variants: [{name: a, agents: b}]\n":                       "line 3: variants[0].agents: there is no such key; the keys are agent, budget, context, fallback, handoff, instructions, max_tokens, max_turns, model, name, prompt, recorded, result, temperature, tools",
		good + "variants: [{name: a}, {name: a}]\n":                       `line 1: variants[1]: there are two variants "a"`,
		good + "variants: [{name: a, recorded: true, model: m/x}]\n":      "line 3: variants[0]: a variant that is recorded has no other keys",
		good + "variants: [{name: a, recorded: true}]\n":                  `line 1: cases[0]: the variant "a" is what was recorded, so the case needs a task`,
		good + "variants: [{name: a, recorded: 1}]\n":                     "line 3: variants[0].recorded: must be true or false",
		"cases: [{name: a, prompt: b}]\n":                                 "line 1: cases[0]: the case has no task, so the set needs an agent",
		"agent: a\ncases: [{name: a}]\n":                                  "line 2: cases[0]: a case needs a prompt, inputs or a task",
		"agent: a\ncases: [{prompt: a}]\n":                                "line 2: cases[0]: a case needs a name",
		"agent: a\ncases: [{name: \"a\\nb\", prompt: a}]\n":               "line 2: cases[0].name: must have 1 to 100 characters",
		"agent: a\ncases: [{name: a, prompt: a}, {name: a, prompt: b}]\n": `line 1: cases[1]: there are two cases "a"`,
		"agent: a\ncases: [{name: a, inputs: {x: {1: 2}}}]\n":             "line 2: cases[0].inputs: has no form in JSON",
		good + "expect: {}\n":                                             "line 3: expect: must be a list",
		good + "expect: [{says: x}]\n":                                    "line 3: expect[0].says: there is no such key; the keys are calls, contains, equals, fails, max_calls, max_time, max_tokens, max_turns, max_usd, not_contains, not_tools, result, tools",
		good + "expect: [{contains: /(/}]\n":                              "line 3: expect[0].contains: error parsing regexp: missing closing ): `(`",
		good + "expect: [{contains: ''}]\n":                               "line 3: expect[0].contains: must be a text",
		good + "expect: [{result: {path: a}}]\n":                          "line 3: expect[0].result: needs equals or contains",
		good + "expect: [{calls: [{args: {}}]}]\n":                        "line 3: expect[0].calls[0]: needs a tool",
		good + "expect: [{max_turns: x}]\n":                               "line 3: expect[0].max_turns: must be a whole number from 1 to 10000",
		good + "expect: [{max_time: -1s}]\n":                              `line 3: expect[0].max_time: "-1s" is not a duration such as 90s or 10m`,
	} {
		_, err := evals.Read("f", []byte(src))
		require.Error(t, err, src)
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
		assert.Equal(t, "f: "+want, fault.From(err).Message, src)
	}
}

// Whatever a set contains, reading it gives a set or an error with its code, and the runs of a set can be built.
func FuzzRead(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("agent: {model: a}\ncases: [{name: a, prompt: b, expect: [{contains: /x/}]}]\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := evals.Read("f", src)
		if err != nil {
			assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
			return
		}
		load := func(string) (map[string]any, error) { return map[string]any{"model": "m/x"}, nil }
		records := map[string]*evals.Record{}
		for _, c := range s.Cases {
			records[c.RecordKey()] = &evals.Record{Keys: map[string]any{"model": "m/x"}}
		}
		runs, err := s.Runs(load, records)
		if err != nil {
			return
		}
		outcomes := make([]evals.Outcome, len(runs))
		for i, r := range runs {
			outcomes[i] = evals.Outcome{Case: r.Case.Name, Variant: r.Variant.Name, State: "DONE", Text: "x", Result: []byte(`{"a":[1]}`)}
			outcomes[i].Judge(r.Case.Expect)
		}
		assert.Len(t, s.Report("r", outcomes).Cases, len(s.Cases))
	})
}
