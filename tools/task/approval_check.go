package task

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type approvalCheckIn struct {
	ApprovalID string `json:"approval_id" jsonschema:"Approval request id" minLength:"1"`
}

type approvalCheckOut struct {
	ApprovalID string     `json:"approval_id" jsonschema:"The request"`
	Status     string     `json:"status" jsonschema:"Status of the request" enum:"pending,granted,rejected,expired"`
	Approver   string     `json:"approver,omitempty" jsonschema:"Who granted or rejected it"`
	DecidedAt  *time.Time `json:"decided_at,omitempty" jsonschema:"When it was decided, or expired"`
	Reason     string     `json:"reason,omitempty" jsonschema:"Why it was granted or rejected"`
}

// approvalCheck is APPROVAL_CHECK (S0-165). It returns NOT_FOUND both for an unknown request and for a request of
// another task.
var approvalCheck = tools.Define(tools.Spec{
	Name:           "APPROVAL_CHECK",
	Title:          "Show the status of an approval",
	Purpose:        "Check status of approval request",
	Conditions:     []string{"Any task state", "Approval request exists"},
	Effect:         tools.Read,
	Gate:           tools.AnyState,
	Approval:       tools.NoApproval,
	NeedsApprovals: true,
	NoWorkspace:    true,
	Errors:         []string{"NOT_FOUND"},
}, func(_ context.Context, env *tools.Env, in approvalCheckIn) (approvalCheckOut, error) {
	out := approvalCheckOut{ApprovalID: in.ApprovalID}
	found, ok := env.Approvals[in.ApprovalID]
	if !ok {
		err := fault.New(fault.NotFound, "the task has no such approval").WithField("approval_id")
		if owner, parseErr := events.TaskOfApproval(in.ApprovalID); parseErr == nil && owner != env.Context() {
			return out, err.WithHint("the id is one of %s; only calls inside of that task see it", owner)
		}
		return out, err
	}
	if err := json.Unmarshal(found, &out); err != nil {
		return out, fault.Wrap(fault.Internal, err, "the approval cannot be read")
	}
	out.ApprovalID = in.ApprovalID
	return out, nil
})
