package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

const stubbed = `
model: m/x
tools: [READ, WRITE]
stubs:
  from: TASK_01JD0000000000000000000000
  calls:
    - {tool: READ, args: {b: 1, a: [2.50]}, output: {text: first}}
    - {tool: READ, args: {a: [2.50], b: 1}, output: second}
    - {tool: WRITE, error: {code: NOT_FOUND, message: no such folder, hint: make it}}
    - {tool: READ, args: {c: null}, output: null}
  live: [LOG_*, "!LOG_DELETE"]
  reads: ["*", "!WEB_*"]
`

func TestStubs(t *testing.T) {
	t.Parallel()
	p, _, err := plan.Load("/x/a.yaml", []byte(stubbed), plan.Options{})
	require.NoError(t, err)
	compiled, err := plan.Compile(p.JSON())
	require.NoError(t, err)
	s := compiled.Steps()[0].Agent.Stubs
	require.NotNil(t, s)
	assert.Equal(t, "TASK_01JD0000000000000000000000", s.From)
	outputs := func(tool, args string) (all []string) {
		for _, stub := range s.Matching(tool, json.RawMessage(args)) {
			all = append(all, string(stub.Output))
		}
		return all
	}
	assert.Equal(t, []string{`{"text":"first"}`, `"second"`}, outputs("READ", "{\"a\": [2.50],\n \"b\": 1}"))
	assert.Equal(t, []string{"null"}, outputs("READ", `{"c":null}`))
	assert.Empty(t, outputs("READ", `{"b":1}`))
	assert.Empty(t, outputs("READ", ``))
	assert.Empty(t, outputs("READ", `{`))
	assert.Empty(t, outputs("LIST", `{"a":[2.50],"b":1}`))
	anything := s.Matching("WRITE", json.RawMessage(`{"x":1}`))
	require.Len(t, anything, 1)
	assert.Equal(t, &plan.StubError{Code: "NOT_FOUND", Message: "no such folder", Hint: "make it"}, anything[0].Error)
	for tool, want := range map[string][2]bool{"READ": {true, false}, "WEB_FETCH": {false, false}, "LOG_WRITE": {true, true}, "LOG_DELETE": {true, false}} {
		assert.Equal(t, want, [2]bool{s.Makes(tool, true), s.Makes(tool, false)}, tool)
	}
	assert.False(t, (&plan.Stubs{}).Makes("READ", true), "nothing is made by default")
}

func TestSameArgs(t *testing.T) {
	t.Parallel()
	for a, same := range map[string]bool{`{"a":1,"b":2}`: true, ` {"b":2, "a":1} `: true, `{"a":1}`: false, `{"a":1.0,"b":2}`: false, `{"a":1,"b":2} x`: false, "": false} {
		assert.Equal(t, same, plan.SameArgs(json.RawMessage(a), json.RawMessage(`{"b":2,"a":1}`)), a)
	}
	assert.True(t, plan.SameArgs(nil, json.RawMessage("{ }")))
}

func TestStubsThatAreWrong(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"from: x":              `p.yaml:3:10: stubs.from: "x" is not the id of a task`,
		"answers: []":          "p.yaml:3:4: stubs.answers: unknown key \"answers\"",
		"live: ['[']":          "p.yaml:3:11: stubs.live[0]: the pattern \"[\" has a wrong form (a name such as FILE_READ, or a pattern such as FILE_* or !FILE_DELETE)",
		"calls: [{output: 1}]": "p.yaml:3:12: stubs.calls[0]: the call needs a `tool` (such as `{tool: FILE_READ, args: {file_path: /w/a.txt}, output: ...}`)",
		"calls: [{tool: A}]":   "p.yaml:3:12: stubs.calls[0]: the call needs either an `output` or an `error`",
		"calls: [{tool: A, args: [], output: 1}]":                             "p.yaml:3:28: stubs.calls[0].args: is a list, but an object is expected (leave it out for any arguments)",
		"calls: [{tool: A, error: {code: oops}}]":                             "p.yaml:3:29: stubs.calls[0].error: the error needs a `code` such as NOT_FOUND, and a `message`",
		"calls: [{tool: A, output: 1, error: {code: NOT_FOUND, message: x}}]": "p.yaml:3:12: stubs.calls[0]: the call needs either an `output` or an `error`",
	} {
		assert.Equal(t, want, problems(t, "model: m/x\nstubs:\n   "+src+"\n", plan.Options{}), src)
	}
}
