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

// A plan says how its calls are approved, in its normal form as well.
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
