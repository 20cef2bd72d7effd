package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type approvalRequestIn struct {
	RequestType string       `json:"request_type" jsonschema:"Kind of the approval" enum:"pre_execution,checkpoint,destructive_operation"`
	Description string       `json:"description" jsonschema:"Human-readable explanation" minLength:"1" maxLength:"4096"`
	Details     tools.Object `json:"details" jsonschema:"Operation details; tool and arguments, if given, bind the approval to that one call"`
	Rationale   string       `json:"rationale" jsonschema:"Why approval is needed" minLength:"1" maxLength:"4096"`
	Timeout     int64        `json:"timeout" jsonschema:"Timeout in seconds" minimum:"1" maximum:"2592000"`
	Priority    string       `json:"priority" jsonschema:"How urgent it is" enum:"low,medium,high,critical"`
}

type approvalRequestOut struct {
	ApprovalID string    `json:"approval_id" jsonschema:"Id of the request"`
	Status     string    `json:"status" jsonschema:"Always pending" enum:"pending"`
	TimeoutAt  time.Time `json:"timeout_at" jsonschema:"When the request expires"`
}

// maxDetails is the maximum size of the details in bytes.
const maxDetails = 32 << 10

// approvalRequest is APPROVAL_REQUEST (S0-160 to S0-162, A-41). The task starts to wait when the result of the call is
// committed.
var approvalRequest = tools.Define(tools.Spec{
	Name:        "APPROVAL_REQUEST",
	Title:       "Ask people for an approval",
	Purpose:     "Request human approval",
	Conditions:  []string{"Any task state", "Valid approval request structure"},
	Effect:      tools.Idempotent,
	Gate:        tools.AnyState,
	Approval:    tools.NoApproval,
	NoWorkspace: true,
	LogOnly:     true,
	Errors:      []string{"VALIDATION_ERROR"},
}, func(_ context.Context, env *tools.Env, in approvalRequestIn) (approvalRequestOut, error) {
	if len(in.Details) > maxDetails {
		return approvalRequestOut{}, fault.New(fault.ValidationError, "has %d bytes, at most %d are shown to people", len(in.Details), maxDetails).
			WithField("details").WithReason("SIZE_LIMIT_EXCEEDED")
	}
	id := events.ApprovalIDFrom(env.Context(), rand.Reader)
	at := events.Time(env.Now().Add(time.Duration(in.Timeout) * time.Second))
	env.Record(events.ApprovalRequested, &events.Approval{
		ID: id, Type: in.RequestType, Description: in.Description, Rationale: in.Rationale,
		Details: events.Inline(json.RawMessage(in.Details)), Priority: in.Priority, ExpiresAt: at, OnReject: "fail", OnExpiry: "block",
	})
	return approvalRequestOut{ApprovalID: id, Status: "pending", TimeoutAt: at}, nil
})
