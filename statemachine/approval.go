package statemachine

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// ApprovalStatus is the status of an approval (M-3, S0-165).
type ApprovalStatus string

// The statuses of an approval. All but pending are final (S0-166), except that a grant that opens scopes can be
// revoked.
const (
	ApprovalPending  ApprovalStatus = "pending"
	ApprovalGranted  ApprovalStatus = "granted"
	ApprovalRejected ApprovalStatus = "rejected"
	ApprovalExpired  ApprovalStatus = "expired"
	ApprovalRevoked  ApprovalStatus = "revoked"
)

// Approval is the fold of one approval's events.
type Approval struct {
	events.Approval

	Status      ApprovalStatus `json:"status"`
	RequestedAt time.Time      `json:"requested_at"`
	// Votes are the agreements before the one that reached the quorum.
	Votes []events.Decision `json:"votes,omitempty"`
	// Decision is the decision that granted or rejected it.
	Decision *events.Decision `json:"decision,omitempty"`
	// Revoked is the decision that revoked the grant.
	Revoked *events.Decision `json:"revoked,omitempty"`
	// DecidedAt is when it was granted, rejected or expired.
	DecidedAt time.Time `json:"decided_at,omitzero"`
	Reminded  bool      `json:"reminded,omitempty"`
	// Spent is true when its call has started: a grant is valid for one call (S0-053).
	Spent bool `json:"spent,omitempty"`
	// ReservedFor is the step whose call started with the grant and then asked a question, stored a note or is retried.
	// The grant stays reserved for this call, without a time limit.
	ReservedFor string `json:"held_for,omitempty"`
	// Uses describes how the covered calls that have started use the grant, by step key.
	Uses map[string]Use `json:"uses,omitempty"`
}

// Use describes how a call has used the grant that covers it.
type Use struct {
	// Reserved is true when the call may continue with the grant: it asked a question, stored a note or is retried.
	Reserved bool `json:"held,omitempty"`
}

// Usable reports whether the grant permits its call at the time at: it is neither spent nor expired.
func (a *Approval) Usable(at time.Time) bool {
	if a.Status != ApprovalGranted || a.Spent {
		return false
	}
	return a.Decision.ValidUntil == nil || at.Before(*a.Decision.ValidUntil)
}

// UsableFor is Usable for the call of a step, for which the grant may be reserved.
func (a *Approval) UsableFor(step string, at time.Time) bool {
	if len(a.Covers) > 0 {
		use, used := a.Uses[step]
		return a.Cover(step) != nil && a.Status == ApprovalGranted && (use.Reserved || !used && a.Usable(at))
	}
	return a.ReservedFor == step || a.Usable(at)
}

// Cover returns the cover for a step, or nil if the approval covers no call of it.
func (a *Approval) Cover(step string) *events.Cover {
	for i := range a.Covers {
		if a.Covers[i].Step == step {
			return &a.Covers[i]
		}
	}
	return nil
}

// Digest returns the digest of the arguments with which the grant permits the call of a step.
func (a *Approval) Digest(step string) string {
	if c := a.Cover(step); c != nil {
		return c.ArgsSHA256
	}
	return a.ArgsSHA256
}

// recordUse records that the call of a step has started with the grant, and whether the grant stays reserved for it.
func (a *Approval) recordUse(step string, reserved bool) {
	if a.Uses == nil {
		a.Uses = map[string]Use{}
	}
	a.Uses[step] = Use{Reserved: reserved}
}

// Approval returns the approval with an id, or nil if the task has none.
func (t *Task) Approval(id string) *Approval {
	for _, a := range t.Approvals {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// HasPendingApproval reports whether an approval of the task is pending.
func (t *Task) HasPendingApproval() bool {
	for _, a := range t.Approvals {
		if a.Status == ApprovalPending {
			return true
		}
	}
	return false
}

// applyApproval folds an event of an approval. It returns false for other events.
func (t *Task) applyApproval(at time.Time, e events.Event) (bool, error) {
	switch d := e.Data.(type) {
	case *events.Approval:
		if t.Approval(d.ID) != nil {
			return true, fault.New(fault.StateNotAllowed, "approval %s was requested before", d.ID)
		}
		t.Approvals = append(t.Approvals, &Approval{Approval: *d, Status: ApprovalPending, RequestedAt: at})
		return true, nil
	case *events.Decision:
		if e.Kind == events.ApprovalRevoked {
			return true, t.revoke(d)
		}
		return true, t.updatePending(d.ID, func(a *Approval) { a.decide(e.Kind, d) })
	case *events.Used:
		return true, t.useGrantElsewhere(d)
	case *events.Elapsed:
		return true, t.updatePending(d.ID, func(a *Approval) { a.elapse(e.Kind, d) })
	default:
		return false, nil
	}
}

// updatePending calls change with a pending approval, or returns STATE_NOT_ALLOWED.
func (t *Task) updatePending(id string, change func(*Approval)) error {
	a := t.Approval(id)
	switch {
	case a == nil:
		return fault.New(fault.StateNotAllowed, "the task has no approval %s", id)
	case a.Status != ApprovalPending:
		return fault.New(fault.StateNotAllowed, "approval %s is %s", id, a.Status)
	}
	change(a)
	return nil
}

// useGrantElsewhere spends a grant for a call of another task.
func (t *Task) useGrantElsewhere(d *events.Used) error {
	a := t.Approval(d.ID)
	if a == nil || a.Status != ApprovalGranted || a.Spent {
		return fault.New(fault.StateNotAllowed, "the task has no unused grant %s", d.ID)
	}
	a.Spent = true
	return nil
}

// revoke marks a grant that opened scopes as revoked.
func (t *Task) revoke(d *events.Decision) error {
	a := t.Approval(d.ID)
	if a == nil || a.Status != ApprovalGranted || len(a.Scopes) == 0 {
		return fault.New(fault.StateNotAllowed, "the task has no grant %s that opens something", d.ID)
	}
	a.Status, a.Revoked = ApprovalRevoked, d
	return nil
}

func (a *Approval) decide(kind events.Kind, d *events.Decision) {
	if kind == events.ApprovalVoted {
		a.Votes = append(a.Votes, *d)
		return
	}
	a.Decision, a.DecidedAt, a.Status = d, d.At, ApprovalGranted
	if kind == events.ApprovalRejected {
		a.Status = ApprovalRejected
	}
}

func (a *Approval) elapse(kind events.Kind, d *events.Elapsed) {
	if kind == events.ApprovalReminded {
		a.Reminded = true
		return
	}
	a.Status, a.DecidedAt = ApprovalExpired, d.At
}

// useGrant spends the grant that permitted a call. A grant that opens scopes for the whole task is not spent.
func (t *Task) useGrant(s *Step) {
	switch a := t.grant(s); {
	case a == nil:
	case len(a.Covers) > 0:
		a.recordUse(s.Key, false)
	default:
		a.Spent, a.ReservedFor = true, ""
	}
}

// keepsGrant reports whether the next attempt of a call may use the grant of the failed one.
func keepsGrant(e events.Event) bool {
	d, ok := e.Data.(*events.Retrying)
	return ok && d.KeepsGrant
}

// reserveGrant reserves the grant that permitted a call for its next attempt: the call asked a question, stored a note,
// or failed with a known outcome and is retried.
func (t *Task) reserveGrant(s *Step) {
	switch a := t.grant(s); {
	case a == nil:
	case len(a.Covers) > 0:
		if _, used := a.Uses[s.Key]; used {
			a.recordUse(s.Key, true)
		}
	case a.Spent:
		a.ReservedFor = s.Key
	}
}

// grant returns the approval that permitted the call of a step, or nil. It also returns nil for an approval that opens
// scopes for the whole task.
func (t *Task) grant(s *Step) *Approval {
	if s.Approval == "" {
		return nil
	}
	if a := t.Approval(s.Approval); a != nil && len(a.Scopes) == 0 {
		return a
	}
	return nil
}
