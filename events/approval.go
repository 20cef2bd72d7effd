package events

import (
	"io"
	"time"

	"github.com/orch-dev/orch/fault"
)

// The kinds of the events of approvals (M-3). An approval is pending until it is granted, rejected or expired.
const (
	// StepParked records that a step waits for an approval, or for answers. It occupies no worker.
	StepParked        Kind = "step.parked"
	ApprovalRequested Kind = "approval.requested"
	// ApprovalVoted is an agreement that does not yet reach the quorum.
	ApprovalVoted    Kind = "approval.voted"
	ApprovalGranted  Kind = "approval.granted"
	ApprovalRejected Kind = "approval.rejected"
	ApprovalExpired  Kind = "approval.expired"
	ApprovalReminded Kind = "approval.reminded"
	// ApprovalUsed records that a call of another task has used the grant of a session.
	ApprovalUsed Kind = "approval.used"
	// ApprovalRevoked records that somebody revoked the scopes that a grant opened for a session or permanently.
	ApprovalRevoked Kind = "approval.revoked"
)

// Parked is the data of step.parked.
type Parked struct {
	Step     string `json:"step"`
	Attempt  int    `json:"attempt,omitempty"`
	Approval string `json:"approval,omitempty"`
	// Questions are the questions that the call waits for instead of an approval.
	Questions []string `json:"questions,omitempty"`
}

// Approval is the data of approval.requested: the request that an approver decides.
type Approval struct {
	ID string `json:"id"`
	// Step is the key of the step that waits; empty when a call of the task asked (APPROVAL_REQUEST).
	Step string `json:"step,omitempty"`
	// Type is pre_execution, checkpoint or destructive_operation (S0-160).
	Type string `json:"type"`
	// Tool and ArgsSHA256, the hex digest of its canonical arguments, bind the approval to one call (M-3).
	Tool       string `json:"tool,omitempty"`
	ArgsSHA256 string `json:"args_sha256,omitempty"`
	// Scopes are the permissions that the grant gives to the whole task instead of one call. A scope is a string such
	// as "endpoint https://host:443".
	Scopes []string `json:"scopes,omitempty"`
	// Offers are scopes that the approver may also open for the session of the call.
	Offers      []string `json:"offers,omitempty"`
	Description string   `json:"description"`
	Details     Value    `json:"details,omitzero"`
	Rationale   string   `json:"rationale,omitempty"`
	// Priority is low, medium, high or critical; Risk is low, medium or high.
	Priority string `json:"priority"`
	Risk     string `json:"risk,omitempty"`
	// Requester is the identity that requests the approval; it must not decide.
	Requester string    `json:"requester"`
	ExpiresAt time.Time `json:"expires_at"`
	// RemindAt is when the approvers are reminded.
	RemindAt *time.Time `json:"remind_at,omitempty"`
	// OnReject is fail or continue; OnExpiry is block, reject, approve, default, escalate or continue.
	OnReject string `json:"on_reject"`
	OnExpiry string `json:"on_expiry"`
	// Quorum is how many approvers must agree; 0 means one.
	Quorum int `json:"quorum,omitempty"`
	// From lists the only people who may decide, such as user:ada; empty means anybody.
	From []string `json:"from,omitempty"`
	// Form is the JSON Schema of the form that an approver fills in. Default is its value when nobody decides.
	Form    Value `json:"form,omitzero"`
	Default Value `json:"default,omitzero"`
	// Follows is the expired approval that this approval replaces.
	Follows string `json:"follows,omitempty"`
	// Covers are the calls that the grant permits. Calls shows them to an approver: a list of objects with step, tool
	// and args.
	Covers []Cover `json:"covers,omitempty"`
	Calls  Value   `json:"calls,omitzero"`
}

// Cover binds an approval to a call that comes later.
type Cover struct {
	Step string `json:"step"`
	Tool string `json:"tool"`
	// ArgsSHA256 is the hex digest of the tool and its canonical arguments.
	ArgsSHA256 string `json:"args_sha256"`
}

// Decision is the data of approval.granted, approval.rejected, approval.voted and approval.revoked.
type Decision struct {
	ID       string    `json:"id"`
	Approver string    `json:"approver"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"`
	// ValidUntil is when an unused grant expires (M-3).
	ValidUntil *time.Time `json:"valid_until,omitempty"`
	// Disposition is "revise" for a rejection that asks for another version.
	Disposition string `json:"disposition,omitempty"`
	// Opens lists the offered scopes that the grant opens for the session of the call.
	Opens []string `json:"opens,omitempty"`
	// Always lists the offered scopes that the grant opens for all sessions of the submitter.
	Always []string `json:"always,omitempty"`
	// Form is the form as the approver filled it in.
	Form Value `json:"form,omitzero"`
}

// Elapsed is the data of approval.expired and approval.reminded.
type Elapsed struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// Used is the data of approval.used: the task that used the grant.
type Used struct {
	ID string `json:"id"`
	By TaskID `json:"by"`
}

func (*Used) payload()     {}
func (*Parked) payload()   {}
func (*Approval) payload() {}
func (*Decision) payload() {}
func (*Elapsed) payload()  {}

// ApprovalPrefix begins the id of an approval.
const ApprovalPrefix = "APR_"

// ApprovalIDFrom returns a new approval id for a task: "APR_", the ULID of the task, and eight random characters from
// entropy, which must not fail. TaskOfApproval returns the task in the id.
func ApprovalIDFrom(task TaskID, entropy io.Reader) string {
	return partID(ApprovalPrefix, task, entropy)
}

// TaskOfApproval returns the task that an approval belongs to, or INVALID_FORMAT for an invalid id.
func TaskOfApproval(id string) (TaskID, error) {
	task, ok := taskOfPart(ApprovalPrefix, id)
	if !ok {
		return "", fault.New(fault.InvalidFormat, "%q is not an id of an approval", id[:min(len(id), 60)]).WithField("approval_id").
			WithHint("orch approvals lists them")
	}
	return task, nil
}
