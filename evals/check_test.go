package evals_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/evals"
	"github.com/orch-dev/orch/fault"
)

// checksOf reads the assertions of a case.
func checksOf(t *testing.T, expect string) []evals.Check {
	t.Helper()
	s, err := evals.Read("set.yaml", []byte("agent: a\ncases:\n- name: a\n  prompt: b\n  expect: ["+expect+"]\n"))
	require.NoError(t, err, expect)
	return s.Cases[0].Expect
}

// outcome returns an outcome with an answer and two calls.
func outcome() evals.Outcome {
	o := evals.Outcome{
		State: "DONE", Task: "TASK_01JD0000000000000000000000", USD: 0.02, Tokens: 900, Turns: 3, Took: 2 * time.Second,
		Calls: []evals.Call{{Tool: "FILE_READ", Args: `{"file_path":"/w/shop.go","limit":5}`}, {Tool: "GREP_SEARCH", Args: "{}"}},
	}
	o.Answer([]byte(`{"text":"There is a nil map in line 7.","result":{"ok":true,"bugs":[{"line":7.0,"what":"nil map"}]}}`))
	return o
}

func TestChecks(t *testing.T) {
	t.Parallel()
	for expect, want := range map[string][]string{
		`{contains: nil map}`:                                                          nil,
		`{contains: '/line \d+\.$/'}`:                                                  nil,
		`{contains: [nil map, race]}`:                                                  {`contains "race": the answer is "There is a nil map in line 7."`},
		`{not_contains: race}`:                                                         nil,
		`{not_contains: /nil/}`:                                                        {`not_contains "/nil/": the answer is "There is a nil map in line 7."`},
		`{equals: ' There is a nil map in line 7. '}`:                                  nil,
		`{equals: There}`:                                                              {`equals "There": the answer is "There is a nil map in line 7."`},
		`{result: {path: ok, equals: true}}`:                                           nil,
		`{result: {path: ok, equals: false}}`:                                          {"result ok equals false: it is true"},
		`{result: {path: 'bugs[0].line', equals: 7}}`:                                  nil,
		`{result: {path: 'bugs[1].line', equals: 7}}`:                                  {"result bugs[1].line equals 7: there is no such value"},
		`{result: {path: ok.no, equals: 7}}`:                                           {"result ok.no equals 7: there is no such value"},
		`{result: {path: 'bugs[0].what', contains: nil}}`:                              nil,
		`{result: {contains: /"line":7/}}`:                                             nil,
		`{result: {path: bugs, equals: [{line: 7, what: nil map}]}}`:                   nil,
		`{result: {path: bugs, equals: []}}`:                                           {`result bugs equals []: it is [{"line":7,"what":"nil map"}]`},
		`{tools: [FILE_READ, 'GREP_*']}`:                                               nil,
		`{tools: FILE_WRITE}`:                                                          {"tools FILE_WRITE: it called FILE_READ, GREP_SEARCH"},
		`{not_tools: [FILE_WRITE, 'FILE_*']}`:                                          {"not_tools FILE_*: it was called"},
		`{calls: [{tool: FILE_READ, args: {limit: 5}}]}`:                               nil,
		`{calls: [{tool: 'FILE_*', args: {file_path: '/shop\.go$/'}}]}`:                nil,
		`{calls: [{tool: FILE_READ, args: {file_path: shop.go}}]}`:                     {`calls FILE_READ {"file_path":"shop.go"}: it called FILE_READ, GREP_SEARCH`},
		`{calls: [{tool: FILE_READ, args: {offset: 1}}]}`:                              {`calls FILE_READ {"offset":1}: it called FILE_READ, GREP_SEARCH`},
		`{max_usd: 0.02}, {max_tokens: 900, max_turns: 3, max_calls: 2, max_time: 2s}`: nil,
		`{max_usd: 0.01, max_tokens: 899, max_turns: 2, max_calls: 1, max_time: 1s}`: {
			"max_usd $0.01: it is $0.02", "max_tokens 899: it is 900", "max_turns 2: it is 3", "max_calls 1: it is 2", "max_time 1s: it is 2s",
		},
		`{fails: FORBIDDEN}, {contains: nil}`: {"ends: it is DONE, and should fail with FORBIDDEN"},
	} {
		o := outcome()
		o.Judge(checksOf(t, expect))
		assert.Equal(t, want, said(o), expect)
		assert.Equal(t, want == nil, o.OK, expect)
	}
}

func said(o evals.Outcome) (all []string) {
	for _, f := range o.Failed {
		all = append(all, f.Check+": "+f.Why)
	}
	return all
}

// A run has to succeed, unless an assertion expects its failure.
func TestEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		o      evals.Outcome
		expect string
		want   []string
	}{
		"failed":       {evals.Outcome{State: "FAILED", Error: fault.New(fault.QuotaExceeded, "too much")}, `{contains: x}`, []string{"ends: it is FAILED: QUOTA_EXCEEDED: too much"}},
		"cancelled":    {evals.Outcome{State: "CANCELLED"}, ``, []string{"ends: it is CANCELLED"}},
		"as expected":  {evals.Outcome{State: "FAILED", Error: fault.New(fault.QuotaExceeded, "too much")}, `{fails: QUOTA_EXCEEDED}, {max_turns: 1}`, nil},
		"otherwise":    {evals.Outcome{State: "FAILED", Error: fault.New(fault.Forbidden, "no")}, `{fails: QUOTA_EXCEEDED}`, []string{"ends: it is FAILED (FORBIDDEN: no), and should fail with QUOTA_EXCEEDED"}},
		"waits":        {evals.Outcome{State: "AWAITING_APPROVAL", Waits: true, Task: "TASK_1"}, ``, []string{"ends: it waits for a person: orch explain TASK_1"}},
		"not run":      {evals.Outcome{NotRun: "too dear"}, `{contains: x}`, []string{"ends: not run: too dear"}},
		"recorded":     {evals.Outcome{State: "succeeded"}, ``, nil},
		"recorded bad": {evals.Outcome{State: "failed"}, ``, []string{"ends: it is failed"}},
	} {
		test.o.Judge(checksOf(t, test.expect))
		assert.Equal(t, test.want, said(test.o), name)
		assert.Equal(t, test.want == nil, test.o.OK, name)
	}
}
