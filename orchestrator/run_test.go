package orchestrator_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/statemachine"
)

func TestOneStepTakesTwoCommits(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nname: one\nsteps:\n  - id: a\n    tool: READ\n    with: {text: hi, n: 3}\noutputs:\n  said: ${{ steps.a.output.text }}\n")
	c := n.take("w")
	assert.JSONEq(t, `{"text":"hi","n":3}`, string(c.Args))
	require.NoError(t, n.report("w", c, `{"text":"hi","n":3}`))
	r := n.result(id)
	assert.Equal(t, statemachine.Done, r.State)
	assert.JSONEq(t, `{"said":"hi"}`, string(r.Output))
	assert.Equal(t, uint64(2), n.get(id).Rev)
}

type planCase struct {
	plan   string
	state  statemachine.State
	output string
}

func plansOfEveryKind() map[string]planCase {
	return map[string]planCase{
		"chain": {
			"orch: v1\nsteps:\n  - {id: a, tool: READ, with: {n: 1}}\n  - {id: b, tool: WRITE, with: {n: \"${{ steps.a.output.n + 1 }}\"}}\noutputs: {n: \"${{ steps.b.output.n }}\"}\n",
			statemachine.Done, `{"n":2}`,
		},
		"set and if": {
			"orch: v1\nsteps:\n  - {id: a, set: {x: 1}}\n  - {id: b, if: steps.a.output.x > 1, tool: READ}\n  - {id: c, needs: [b], set: {y: \"${{ steps.b.state }}\"}}\noutputs: {y: \"${{ steps.c.output.y }}\"}\n",
			statemachine.Done, `{"y":"skipped"}`,
		},
		"for_each": {
			"orch: v1\nsteps:\n  - id: each\n    for_each: \"[1, 2, 3]\"\n    max_parallel: 2\n    do:\n      - {id: d, tool: READ, with: {n: \"${{ item * 10 + index }}\"}}\noutputs: {list: \"${{ map(steps.each.output, #.d.n) }}\"}\n",
			statemachine.Done, `{"list":[10,21,32]}`,
		},
		"empty for_each": {
			"orch: v1\nsteps:\n  - id: each\n    for_each: \"[]\"\n    do:\n      - {id: d, tool: READ}\noutputs: {list: \"${{ steps.each.output }}\"}\n",
			statemachine.Done, `{"list":[]}`,
		},
		"timer": {
			"orch: v1\nsteps:\n  - {id: w, wait: {for: 20ms}}\n  - {id: b, needs: [w], tool: READ, with: {n: 5}}\noutputs: {n: \"${{ steps.b.output.n }}\"}\n",
			statemachine.Done, `{"n":5}`,
		},
		"signal default": {
			"orch: v1\nsteps:\n  - {id: w, wait: {signal: go, timeout: 20ms, default: {late: true}}}\noutputs: {o: \"${{ steps.w.output }}\"}\n",
			statemachine.Done, `{"o":{"late":true}}`,
		},
		"verify and always": {
			"orch: v1\nsteps:\n  - {id: a, tool: WRITE}\nverify:\n  - {id: v, tool: READ}\nalways:\n  - {id: z, tool: READ2}\noutputs: {v: \"${{ steps.a.state }}\"}\n",
			statemachine.Done, `{"v":"succeeded"}`,
		},
		"failing step": {
			"orch: v1\nsteps:\n  - {id: a, tool: READ, with: {text: fail}}\n  - {id: b, needs: [a], tool: READ}\nalways:\n  - {id: z, tool: READ2}\n",
			statemachine.Failed, "",
		},
		"continue": {
			"orch: v1\nsteps:\n  - {id: a, tool: READ, with: {text: fail}, on_error: continue}\n  - {id: b, needs: [a], tool: READ, with: {n: 7}}\noutputs: {n: \"${{ steps.b.output.n }}\", why: \"${{ steps.a.error.message }}\"}\n",
			statemachine.Done, `{"n":7,"why":"no"}`,
		},
		"skip dependents": {
			"orch: v1\nsteps:\n  - {id: a, tool: READ, with: {text: fail}, on_error: skip_dependents}\n  - {id: b, needs: [a], tool: READ}\n  - {id: c, needs: [b], tool: READ}\n  - {id: d, set: {x: 1}}\noutputs: {c: \"${{ steps.c.state }}\"}\n",
			statemachine.Done, `{"c":"skipped"}`,
		},
		"sub-plan": {
			"orch: v1\nsteps:\n  - id: sub\n    with: {n: 4}\n    run:\n      orch: v1\n      inputs: {type: object, properties: {n: {type: integer}}}\n      steps:\n        - {id: a, tool: READ, with: {n: \"${{ inputs.n * 2 }}\"}}\n      outputs: {n: \"${{ steps.a.output.n }}\"}\noutputs: {n: \"${{ steps.sub.output.n }}\"}\n",
			statemachine.Done, `{"n":8}`,
		},
		"failing sub-plan": {
			"orch: v1\nsteps:\n  - id: sub\n    run:\n      orch: v1\n      steps:\n        - {id: a, tool: READ, with: {text: fail}}\n",
			statemachine.Failed, "",
		},
		"for_each item fails": {
			"orch: v1\nsteps:\n  - id: each\n    for_each: \"['ok', 'fail', 'ok']\"\n    max_parallel: 1\n    do:\n      - {id: d, tool: READ, with: {text: \"${{ item }}\"}}\n",
			statemachine.Failed, "",
		},
		"for_each continues": {
			"orch: v1\nsteps:\n  - id: each\n    for_each: \"['a', 'fail', 'b']\"\n    on_item_error: continue\n    do:\n      - {id: d, tool: READ, with: {text: \"${{ item }}\"}}\noutputs: {n: \"${{ len(filter(steps.each.output, .error == nil)) }}\"}\n",
			statemachine.Done, `{"n":2}`,
		},
		"too many calls": {
			"orch: v1\nlimits: {max_steps: 1}\nsteps:\n  - {id: a, tool: READ}\n  - {id: b, needs: [a], tool: READ}\n",
			statemachine.Failed, "",
		},
		"expression fails": {
			"orch: v1\nsteps:\n  - {id: a, tool: READ, with: {n: 1}}\n  - {id: b, tool: READ, with: {n: \"${{ steps.a.output.n.x }}\"}}\n",
			statemachine.Failed, "",
		},
	}
}

func TestPlansOfEveryKind(t *testing.T) {
	t.Parallel()
	for name, tc := range plansOfEveryKind() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, memlog.New(memlog.Config{}))
			n.serve(failOnWord)
			r := n.result(n.submit(tc.plan))
			assert.Equal(t, tc.state, r.State, "%v", r.Error)
			if tc.output != "" {
				assert.JSONEq(t, tc.output, string(r.Output))
			} else {
				assert.NotNil(t, r.Error)
			}
		})
	}
}
