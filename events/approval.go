package events

import (
	"io"
	"time"

	"github.com/orch-dev/orch/fault"
)

// The kinds of approvals (M-3). An approval is pending from its request on and ends once, as granted,
// rejected or expired.
const (
	// StepParked says that a step waits for an approval, or for answers; it holds no worker.
	StepParked        Kind = "step.parked"
	ApprovalRequested Kind = "approval.requested"
	// ApprovalVoted is a yes that does not yet reach the quorum.
	ApprovalVoted    Kind = "approval.voted"
	ApprovalGranted  Kind = "approval.granted"
	ApprovalRejected Kind = "approval.rejected"
	ApprovalExpired  Kind = "approval.expired"
	ApprovalReminded Kind = "approval.reminded"
	// ApprovalUsed says that the grant of a session has let a call of another task through.
	ApprovalUsed Kind = "approval.used"
	// ApprovalRevoked says that somebody has taken back what a grant has opened for a session, or for good.
	ApprovalRevoked Kind = "approval.revoked"
)

// Parked is the data of step.parked.
type Parked struct {
	Step     string `json:"step"`
	Attempt  int    `json:"attempt,omitempty"`
	Approval string `json:"approval,omitempty"`
	// Questions are those that the call waits for instead of an approval.
	Questions []string `json:"questions,omitempty"`
}

// Approval is the data of approval.requested: what somebody is asked to allow.
type Approval struct {
	ID string `json:"id"`
	// Step is the key of the step that waits; empty when the task asked by itself (APPROVAL_REQUEST).
	Step string `json:"step,omitempty"`
	// Type is pre_execution, checkpoint or destructive_operation (S0-160).
	Type string `json:"type"`
	// Tool and ArgsSHA256, the hex digest of its canonical arguments, bind the approval to one call (M-3).
	Tool       string `json:"tool,omitempty"`
	ArgsSHA256 string `json:"args_sha256,omitempty"`
	// Scopes open targets for the whole task instead of one call, such as "endpoint https://host:443".
	Scopes []string `json:"scopes,omitempty"`
	// Offers are scopes that whoever grants may open for the session of the call.
	Offers      []string `json:"offers,omitempty"`
	Description string   `json:"description"`
	Details     Value    `json:"details,omitzero"`
	Rationale   string   `json:"rationale,omitempty"`
	// Priority is low, medium, high or critical; Risk is low, medium or high.
	Priority string `json:"priority"`
	Risk     string `json:"risk,omitempty"`
	// Requester is who asks; it can never decide.
	Requester string    `json:"requester"`
	ExpiresAt time.Time `json:"expires_at"`
	// RemindAt is when the approvers are reminded.
	RemindAt *time.Time `json:"remind_at,omitempty"`
	// OnReject is fail or continue; OnExpiry is block, reject, approve, default, escalate or continue.
	OnReject string `json:"on_reject"`
	OnExpiry string `json:"on_expiry"`
	// Quorum is how many approvers have to agree; 0 means one.
	Quorum int `json:"quorum,omitempty"`
	// From are the only people who may decide, such as user:ada; none means any.
	From []string `json:"from,omitempty"`
	// Form is the JSON Schema of what an approver fills in, Default what counts when nobody does.
	Form    Value `json:"form,omitzero"`
	Default Value `json:"default,omitzero"`
	// Follows is the expired approval that this one replaces.
	Follows string `json:"follows,omitempty"`
	// Covers are the calls that the grant lets through, Calls what an approver sees of them: a list of objects with step,
	// tool and args.
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
	// ValidUntil ends a grant that nobody has used (M-3).
	ValidUntil *time.Time `json:"valid_until,omitempty"`
	// Disposition is "revise" for a rejection that asks for another version.
	Disposition string `json:"disposition,omitempty"`
	// Opens are the scopes, of those that the approval offers, that a grant opens for the session of the call.
	Opens []string `json:"opens,omitempty"`
	// Always are the scopes, of those that the approval offers, that a grant opens for all sessions of whoever submitted the task.
	Always []string `json:"always,omitempty"`
	// Form is what the approver has filled in.
	Form Value `json:"form,omitzero"`
}

// Elapsed is the data of approval.expired and approval.reminded.
type Elapsed struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// Used is the data of approval.used: which task has used the grant.
type Used struct {
	ID string `json:"id"`
	By TaskID `json:"by"`
}

func (*Used) payload()     {}
func (*Parked) payload()   {}
func (*Approval) payload() {}
func (*Decision) payload() {}
func (*Elapsed) payload()  {}

const approvalPrefix = "APR_"

// ApprovalIDFrom returns a new id of an approval of a task: "APR_", the ULID of the task, and eight random
// characters from entropy, which must not fail. An approval is found by its task.
func ApprovalIDFrom(task TaskID, entropy io.Reader) string {
	return partID(approvalPrefix, task, entropy)
}

// TaskOfApproval returns the task that an approval belongs to; INVALID_FORMAT for what is no id.
func TaskOfApproval(id string) (TaskID, error) {
	task, ok := taskOfPart(approvalPrefix, id)
	if !ok {
		return "", fault.New(fault.InvalidFormat, "%q is no id of an approval", id[:min(len(id), 60)]).WithField("approval_id").
			WithHint("orch approvals lists them")
	}
	return task, nil
}
