package plantest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/plantest"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func catalogue(t *testing.T) *tools.Catalogue {
	t.Helper()
	c, err := tools.New(builtin.All(builtin.Config{})...)
	require.NoError(t, err)
	return c
}

// cases runs the cases of a file of tests for a plan.
func cases(t *testing.T, yaml, tests string) map[string]plantest.Outcome {
	t.Helper()
	p, err := plan.Parse("p.yaml", []byte(yaml), plan.Options{})
	require.NoError(t, err)
	return run(t, p, "plan: p.yaml\n"+tests)
}

func run(t *testing.T, p *plan.Plan, tests string) map[string]plantest.Outcome {
	t.Helper()
	f, err := plantest.Read("p.test.yaml", []byte(tests))
	require.NoError(t, err)
	all := map[string]plantest.Outcome{}
	for _, c := range f.Cases {
		o, err := plantest.Run(context.Background(), f, c, p, catalogue(t))
		require.NoError(t, err)
		all[c.Name] = o
	}
	return all
}

// said returns the differences of a case as text.
func said(o plantest.Outcome) (all []string) {
	for _, d := range o.Differences {
		all = append(all, d.String())
	}
	return all
}

// The tests in the examples pass.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../examples/tests/*.test.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		f, err := plantest.Read(file, src)
		require.NoError(t, err)
		name := filepath.Join(filepath.Dir(file), f.Plan)
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		p, err := plan.Parse(name, text, plan.Options{ReadFile: os.ReadFile})
		require.NoError(t, err)
		for name, o := range run(t, p, string(src)) {
			assert.Empty(t, said(o), name)
		}
	}
}

const steps = `
orch: v1
inputs: {properties: {file: {type: string}}}
steps:
  - {id: read, tool: FILE_READ, with: {file_path: "${{ inputs.file }}"}, on_error: continue}
  - id: each
    for_each: '["a", "b"]'
    do: [{id: call, tool: FILE_READ, with: {file_path: "${{ item }}"}}]
  - {id: go, wait: {signal: go, timeout: 1d, default: late}}
  - {id: nap, needs: [go], wait: {for: 2h}}
outputs: {lines: "${{ steps.read.output?.total_lines }}", all: "${{ map(steps.each.output, .call.total_lines) }}", go: "${{ steps.go.output }}"}
`

func TestRun(t *testing.T) {
	t.Parallel()
	all := cases(t, steps, `
cases:
  - name: as expected
    inputs: {file: a.txt}
    results: {FILE_READ: {output: {total_lines: 1}}, "each[1].call": {output: {total_lines: 2}}, read: {output: {total_lines: 3}}}
    signals: {go: {by: ada}}
    expect: {outputs: {lines: 3, all: [1, 2], go: {by: ada}}, calls: {read: {file_path: a.txt}}, steps: {"each[1].call": succeeded}, took: 2h}
  - name: late
    inputs: {file: a.txt}
    results: {call: {output: {total_lines: 1}}, read: {error: {code: NOT_FOUND, message: no such file}}}
    expect: {outputs: {lines: null, go: late}, steps: {read: failed}, took: 26h}
  - name: unlike
    inputs: {file: a.txt}
    results: {FILE_READ: {output: {total_lines: 1}}}
    expect: {state: FAILED, outputs: {lines: 2, all: [1]}, steps: {read: skipped, none: failed}, calls: {read: {file_path: b.txt}}, error: broke, took: 1h}
  - name: without a result
    inputs: {file: a.txt}
    results: {read: {output: {}}}
    expect: {state: FAILED}
  - name: wrong inputs
    inputs: {file: 7}
  - name: refused inputs
    inputs: {file: 7}
    expect: {error: want string}
`)
	for _, name := range []string{"as expected", "late", "refused inputs"} {
		assert.Empty(t, said(all[name]), name)
		assert.True(t, all[name].OK, name)
	}
	assert.Equal(t, []string{
		`state: expected "FAILED", but it is "DONE"`,
		`error: expected "broke", but it is ""`,
		`outputs.all: expected [1], but it is [1,1]`,
		`outputs.lines: expected 2, but it is 1`,
		`steps.none: expected "failed", but it is "" (there is no such step)`,
		`steps.read: expected "skipped", but it is "succeeded"`,
		`calls.read.file_path: expected "b.txt", but it is "a.txt"`,
		`took: expected "1h0m0s", but it is "26h0m0s"`,
	}, said(all["unlike"]))
	assert.Equal(t, []string{
		`results.each[0].call: expected null, but it is "FILE_READ" (the case has no result for this call)`,
		`results.each[1].call: expected null, but it is "FILE_READ" (the case has no result for this call)`,
	}, said(all["without a result"]))
	assert.Contains(t, said(all["wrong inputs"])[0], `submit: expected ""`)
	assert.False(t, all["wrong inputs"].OK)
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	all := cases(t, `
orch: v1
steps:
  - {id: ok, approve: {description: "Go?", timeout: 1h, on_expiry: block, form: {properties: {n: {type: integer}}}}}
outputs: {n: "${{ steps.ok.output.form.n }}", by: "${{ steps.ok.output.approver }}"}
`, `
cases:
  - name: granted
    approvals: {ok: {as: granted, by: "user:ada", form: {n: 3}}}
    expect: {outputs: {n: 3, by: "user:ada"}, took: 0s}
  - name: rejected
    approvals: {ok: rejected}
    expect: {state: FAILED, steps: {ok: failed}}
  - name: expired
    approvals: {ok: expire}
    expect: {state: BLOCKED, took: 1h}
  - name: not said
  - name: a wrong form
    approvals: {ok: {as: granted, form: {n: x}}}
    expect: {state: BLOCKED}
`)
	for _, name := range []string{"granted", "rejected", "expired"} {
		assert.Empty(t, said(all[name]), name)
	}
	require.Len(t, said(all["a wrong form"]), 1)
	assert.Contains(t, said(all["a wrong form"])[0], `approvals.ok: expected "granted", but it is "form.n`)
	require.NotEmpty(t, said(all["not said"]))
	assert.Equal(t, `approvals.ok: expected null, but it is "Go?" (the case does not say how it is decided)`, said(all["not said"])[0])
}

// Children, queues, large values and rounds are as in a node, and a call with wrong arguments fails as there.
func TestAsInANode(t *testing.T) {
	t.Parallel()
	all := cases(t, `
orch: v1
inputs: {additionalProperties: true}
steps:
  - id: sub
    run:
      orch: v1
      steps: [{id: inner, tool: FILE_READ, queue: slow, with: {file_path: x}}]
      outputs: {text: "${{ steps.inner.output.content }}"}
  - {id: size, set: {n: "${{ len(steps.sub.output.text) }}"}}
  - {id: wrong, tool: FILE_READ, with: {file_path: "${{ inputs.path }}"}, on_error: continue}
  - {id: rounds, tool: FILE_READ, with: {file_path: x}, until: output.total_lines == 4, max_rounds: 10, delay: 5m, retry: {on: [tool_error], initial: 1m}}
outputs: {n: "${{ steps.size.output.n }}", rounds: "${{ steps.rounds.attempts }}", wrong: "${{ steps.wrong.error.code }}"}
`, `
cases:
  - name: all
    inputs: {path: 7, big: 1}
    results:
      inner: {output: {content: "`+big()+`"}}
      rounds:
        - {output: {total_lines: 1}}
        - {error: {code: TIMEOUT, class: tool_error}}
        - {output: {total_lines: 4}}
    expect: {outputs: {n: 100000, rounds: 3, wrong: VALIDATION_ERROR}, took: 6m}
`)
	assert.Empty(t, said(all["all"]))
}

// A result for a step or tool that the plan does not have is an error.
// A case says what has started the task.
func TestHooksAndSchedules(t *testing.T) {
	t.Parallel()
	all := cases(t, `
orch: v1
steps:
  - id: who
    set: {ref: "${{ hook.body?.ref }}", event: "${{ hook.headers[\"x-github-event\"] }}", hook: "${{ hook.name }}", of: "${{ hook.subject }}", id: "${{ hook.delivery }}", at: "${{ schedule.time }}", schedule: "${{ schedule.name }}"}
outputs: {who: "${{ steps.who.output }}"}
`, `
now: 2026-05-01T10:00:00Z
cases:
  - name: hook
    hook: {name: deploy, delivery: id-1, subject: a.b, headers: {X-GitHub-Event: push}, body: {ref: main}}
    expect: {outputs: {who: {ref: main, event: push, hook: deploy, of: a.b, id: id-1, schedule: ""}}}
  - name: a body alone
    hook: {body: {ref: main}}
    expect: {outputs: {who: {ref: main, hook: test, id: test}}}
  - name: schedule
    schedule: {name: nightly, time: 2026-03-29T01:30:00+01:00}
    expect: {outputs: {who: {at: "2026-03-29T00:30:00Z", schedule: nightly, ref: null, hook: ""}}}
  - name: now
    schedule: {}
    expect: {outputs: {who: {at: "2026-05-01T10:00:00Z", schedule: test}}}
  - name: by hand
    expect: {outputs: {who: {ref: null, event: null, hook: "", schedule: ""}}}
`)
	for name, o := range all {
		assert.Empty(t, said(o), name)
	}
	assert.Len(t, all, 5)
}

func TestUnknownNames(t *testing.T) {
	t.Parallel()
	all := cases(t, steps, `
cases:
  - name: typo
    inputs: {file: a.txt}
    results: {FILE_READ: {output: {total_lines: 1}}, raed: {output: {}}, "each[7].call": {output: {}}}
    approvals: {ok: granted}
    signals: {go: 1}
`)
	assert.Equal(t, []string{
		`results.raed: expected "a step or a tool of the plan", but it is null (the plan has none of this name)`,
		`approvals.ok: expected "a step of the plan", but it is null (the plan has none of this name)`,
	}, said(all["typo"]))
}

func big() string {
	text := make([]byte, 100_000)
	for i := range text {
		text[i] = 'x'
	}
	return string(text)
}

func TestRead(t *testing.T) {
	t.Parallel()
	for src, message := range map[string]string{
		"plan: a\ncases:\n  - name: x\n    expects: {}\n":           `f: line 4: unknown key "expects"`,
		"plan: a\ncases: [{name: x, results: {a: {outputs: 1}}}]\n": `f: line 2: line 1: unknown key "outputs"`,
		"plan: a\ncases: [{name: x, approvals: {a: yes}}]\n":        `f: line 2: "yes" is none of granted, rejected, expire`,
		"plan: a\ncases: [{name: x, results: {a: []}}]\n":           `f: line 2: a list of results has at least one`,
		"cases: [{name: x}]\n":                                      `f: the file of the plan is missing`,
		"plan: a\n":                                                 `f: must be 1 to 1000 cases`,
		"plan: a\ncases: [{}]\n":                                    `f: a case has a name`,
		"plan: a\ncases: [{name: x, expect: {took: soon}}]\n":       `f: "soon" is not a duration`,
		"plan: a\ncases: [{name: x, hook: {}, schedule: {}}]\n":     `f: a task has a hook or a schedule, not both`,
		"plan: a\ncases: [{name: x, hook: {boddy: 1}}]\n":           `f: line 2: unknown key "boddy"`,
	} {
		_, err := plantest.Read("f", []byte(src))
		require.Error(t, err, src)
		assert.Equal(t, message, fault.From(err).Message, src)
	}
	f, err := plantest.Read("f", []byte("plan: a\nnow: 2026-05-01T10:00:00Z\ncases: [{name: x}]\n"))
	require.NoError(t, err)
	assert.Equal(t, time.Date(2026, time.May, 1, 10, 0, 0, 0, time.UTC), f.Now)
}
