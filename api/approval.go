package api

import (
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// ApprovalsRequest filters approvals; zero fields do not filter.
type ApprovalsRequest struct {
	// ID selects one approval, Task the approvals of one task.
	ID   string        `json:"id,omitempty"`
	Task events.TaskID `json:"task,omitempty"`
	// All includes the decided approvals, of Task or else of the open tasks.
	All bool `json:"all,omitempty"`
	// Expired selects, instead of the pending approvals, those that nobody decided in time and for which their tasks are BLOCKED. A
	// resume of the task asks again.
	Expired bool `json:"expired,omitempty"`
	// Submitter selects the approvals of the tasks of one submitter, such as agent:ci.
	Submitter string `json:"submitter,omitempty"`
	// Limit limits the answer, from 1 to 1,000 approvals; 0 means 1,000.
	Limit int `json:"limit,omitempty"`
}

// ApprovalsReply lists approvals, the most urgent first.
type ApprovalsReply struct {
	Approvals []ApprovalView `json:"approvals"`
	// Omitted counts the approvals that did not fit into the answer. Each submitter gets an equal part of the answer, filled with
	// its most urgent approvals.
	Omitted int `json:"omitted,omitempty"`
	// Unread counts the open tasks that could not be read. Their approvals are missing here.
	Unread int `json:"unread,omitempty"`
}

// ApprovalView is an approval as clients see it.
type ApprovalView struct {
	ID       string                      `json:"id"`
	Task     events.TaskID               `json:"task"`
	TaskName string                      `json:"task_name"`
	Step     string                      `json:"step,omitempty"`
	Status   statemachine.ApprovalStatus `json:"status"`
	Type     string                      `json:"type"`
	Tool     string                      `json:"tool,omitempty"`
	// Args are the arguments of the call, ArgsSHA256 is the digest that the grant is bound to. A list contains at most 2 MiB of
	// arguments, details, forms and calls. The rest is replaced by $omitted with its size; a request with the ID of the approval
	// returns it.
	Args       json.RawMessage `json:"args,omitempty"`
	ArgsSHA256 string          `json:"args_sha256,omitempty"`
	Scopes     []string        `json:"scopes,omitempty"`
	// Offers are scopes that a grant may open for the session of the call (DecideRequest.Opens).
	Offers []string `json:"offers,omitempty"`
	// Lasting are scopes that a grant may open permanently for all sessions of the submitter (DecideRequest.Always).
	Lasting     []string        `json:"lasting,omitempty"`
	Description string          `json:"description"`
	Rationale   string          `json:"rationale,omitempty"`
	Details     json.RawMessage `json:"details,omitempty"`
	// Calls are the further calls that the grant allows, a list of objects with step, tool and args.
	Calls     json.RawMessage `json:"calls,omitempty"`
	Priority  string          `json:"priority"`
	Risk      string          `json:"risk,omitempty"`
	Requester string          `json:"requester"`
	// Submitter is who submitted the task, or the topmost parent of a sub-plan.
	Submitter string `json:"submitter"`
	// Caller is who made the call inside the task, empty for a call of its plan.
	Caller      string    `json:"caller,omitempty"`
	RequestedAt time.Time `json:"requested_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	OnExpiry    string    `json:"on_expiry"`
	Quorum      int       `json:"quorum,omitempty"`
	Votes       []string  `json:"votes,omitempty"`
	// NotBy are the people who may not decide, because the node requires a second person (four eyes).
	NotBy []string `json:"not_by,omitempty"`
	// From lists the people who may decide; empty means anybody.
	From        []string        `json:"from,omitempty"`
	Form        json.RawMessage `json:"form,omitempty"`
	Approver    string          `json:"approver,omitempty"`
	DecidedAt   *time.Time      `json:"decided_at,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Disposition string          `json:"disposition,omitempty"`
	// RevokedBy is who revoked the grant. Reason and DecidedAt are then those of the revocation.
	RevokedBy string `json:"revoked_by,omitempty"`
	Spent     bool   `json:"spent,omitempty"`
	Follows   string `json:"follows,omitempty"`
	// Next is the newest approval of the same step, if this one is decided and that is another one: the call has asked again.
	Next      string             `json:"next,omitempty"`
	TaskState statemachine.State `json:"task_state"`
	// TaskRev is the revision of the task that the view shows, for DecideRequest.SeenRev.
	TaskRev uint64 `json:"task_rev"`
}

// DecideRequest decides about an approval.
type DecideRequest struct {
	ID string `json:"id"`
	// As is granted, rejected, revise or revoked. revise rejects and requests a changed version. revoked withdraws the scopes that
	// an earlier grant opened for a session or permanently.
	As     string `json:"as"`
	Reason string `json:"reason,omitempty"`
	// Form is the form that the approver filled in, if the approval has one.
	Form json.RawMessage `json:"form,omitempty"`
	// Opens are the offers of the approval that a grant opens for the session of the call.
	Opens []string `json:"opens,omitempty"`
	// Always are the lasting offers (ApprovalView.Lasting) that a grant opens permanently for all sessions of the submitter of the
	// task. The actor must have the operator's credential.
	Always []string `json:"always,omitempty"`
	Actor  string   `json:"actor"`
	// SeenRev is the same as in CancelRequest.
	SeenRev uint64 `json:"seen_rev,omitempty"`
}
