package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

func approvalCases() []problemCase {
	return []problemCase{
		{
			"approval of a person", steps("id: a", "tool: FILE_READ", "with: {file_path: x}", "approval: {from: [ada]}"),
			`p.yaml:6:23: steps[0].approval.from[0]: the name "ada" is none of a person (people decide about approvals: user:NAME)`,
		},
		{
			"approval out of reach", steps("id: a", "tool: FILE_READ", "with: {file_path: x}", "approval: {from: [user:a], quorum: 2}"),
			"p.yaml:6:40: steps[0].approval.quorum: 2 people have to agree, but `from` names 1",
		},
		{
			"approval by itself", steps("id: a", "tool: FILE_READ", "with: {file_path: x}", "approval: {on_expiry: approve}"),
			`p.yaml:6:27: steps[0].approval.on_expiry: "approve" is none of block, fail, continue, escalate`,
		},
		{
			"approval of no call", steps("id: a", "set: {x: 1}", "approval: {quorum: 2}"),
			"p.yaml:5:15: steps[0].approval: a set step has no `approval`",
		},
		{
			"approve out of reach", steps("id: a", "approve: {description: x, from: [user:a], quorum: 2}"),
			"p.yaml:4:55: steps[0].approve.quorum: 2 people have to agree, but `from` names 1",
		},
	}
}

// coverCase returns a plan with an approve step that covers some steps.
func coverCase(name, covers, rest, want string) problemCase {
	return problemCase{name, "orch: v1\nsteps:\n  - {id: ok, approve: {description: x, covers: [" + covers + "]}}\n" + rest, want}
}

func coverCases() []problemCase {
	const each = "  - id: each\n    for_each: '[1]'\n    needs: [ok]\n    do:\n"
	return []problemCase{
		coverCase("covers nothing", "wrte", "  - {id: write, tool: FILE_READ, with: {file_path: x}, needs: [ok]}\n",
			`p.yaml:3:49: steps[0].approve.covers[0]: there is no step "wrte" (did you mean write?)`),
		coverCase("covers what does not wait", "a", "  - {id: a, tool: FILE_READ, with: {file_path: x}}\n",
			"p.yaml:3:49: steps[0].approve.covers[0]: the step \"a\" does not need \"ok\", so it would not wait for the approval (add `needs: [ok]` to it)"),
		coverCase("covers itself", "ok", "  - {id: a, tool: FILE_READ, with: {file_path: x}}\n",
			"p.yaml:3:49: steps[0].approve.covers[0]: the step \"ok\" does not need \"ok\", so it would not wait for the approval (add `needs: [ok]` to it)"),
		coverCase("covers no call", "a", "  - {id: a, set: {x: 1}, needs: [ok]}\n",
			`p.yaml:3:49: steps[0].approve.covers[0]: "a" is not a call of a tool (name tool steps, and for_each steps or their steps as each.step)`),
		coverCase("covers its own answer", "a", "  - {id: a, tool: FILE_READ, with: {file_path: '${{ steps.ok.output.reason }}'}}\n",
			`p.yaml:3:49: steps[0].approve.covers[0]: the arguments of "a" refer to the step "ok", so they are not known when this step asks (a call whose arguments are not known asks by itself)`),
		coverCase("covers what comes later", "b", "  - {id: a, needs: [ok], set: {x: 1}}\n  - {id: b, tool: FILE_READ, with: {file_path: '${{ steps.a.output.x }}'}}\n",
			`p.yaml:3:5: steps[0]: the steps need each other: ok -> a -> ok`),
		coverCase("covers items that follow", "each", each+"      - {id: a, tool: FILE_READ, with: {file_path: x}}\n      - {id: b, tool: FILE_READ, with: {file_path: '${{ steps.a.output.content }}'}}\n",
			`p.yaml:3:49: steps[0].approve.covers[0]: the arguments of "b" refer to the step "a", so they are not known when this step asks (a call whose arguments are not known asks by itself)`),
		coverCase("covers no item", "each.c", each+"      - {id: a, tool: FILE_READ, with: {file_path: x}}\n",
			`p.yaml:3:49: steps[0].approve.covers[0]: the for_each "each" has no such call of a tool`),
		{
			"covers within a for_each", "orch: v1\nsteps:\n  - id: each\n    for_each: '[1]'\n    do:\n      - {id: ok, approve: {description: x, covers: [a]}}\n      - {id: a, tool: FILE_READ, with: {file_path: x}, needs: [ok]}\n",
			`p.yaml:6:52: steps[0].do[0].approve.covers: an approve step within a for_each covers no calls (ask once, before the for_each, and cover that)`,
		},
		{
			"covers without a person", "orch: v1\nsteps:\n  - {id: ok, approve: {description: x, on_expiry: approve, covers: [a]}}\n  - {id: a, tool: FILE_READ, with: {file_path: x}, needs: [ok]}\n",
			"p.yaml:3:51: steps[0].approve.on_expiry: the calls that `covers` names are not allowed without a person (let it fail: on_expiry: reject)",
		},
	}
}

// The results that arguments of a covered call refer to are available when people are asked.
func TestCoveredCalls(t *testing.T) {
	t.Parallel()
	p, err := plan.Parse("p.yaml", []byte(`
orch: v1
steps:
  - {id: ok, approve: {description: x, covers: [a, each.b]}}
  - {id: list, set: {files: [x, y]}}
  - {id: a, needs: [ok], tool: FILE_READ, with: {file_path: "${{ steps.list.output.files[0] }}"}}
  - id: each
    for_each: steps.list.output.files
    needs: [a]
    do:
      - {id: b, tool: FILE_READ, with: {file_path: "${{ item }}"}}
      - {id: c, tool: FILE_READ, with: {file_path: "${{ steps.b.output.content }}"}}
`), plan.Options{})
	require.NoError(t, err)
	program, err := p.Program()
	require.NoError(t, err)
	ok := program.Node("ok")
	assert.Equal(t, []string{"list"}, ok.Needs)
	assert.Equal(t, []string{"a", "list", "ok"}, program.Node("each").Needs, "it waits for the grant whatever becomes of a")
	require.Len(t, ok.Covers, 2)
	assert.Equal(t, plan.Cover{Call: program.Node("a")}, ok.Covers[0])
	assert.Equal(t, plan.Cover{Each: program.Node("each"), Call: program.Node("each").Children[0]}, ok.Covers[1])
}

// The approval settings of a call are part of the normal form.
func TestApprovalOfACall(t *testing.T) {
	t.Parallel()
	src := steps("id: a", "tool: FILE_READ", "with: {file_path: x}", "approval: {timeout: 4h, on_expiry: continue, from: [user:ada, user:bob], quorum: 2}")
	p, err := plan.Parse("p.yaml", []byte(src), plan.Options{})
	require.NoError(t, err)
	want := &plan.Approval{Timeout: plan.Duration(4 * time.Hour), OnExpiry: "continue", From: []string{"user:ada", "user:bob"}, Quorum: 2}
	assert.Equal(t, want, p.Steps[0].Approval)
	again, err := plan.Parse("p.json", p.JSON(), plan.Options{})
	require.NoError(t, err)
	assert.Equal(t, want, again.Steps[0].Approval)
}
