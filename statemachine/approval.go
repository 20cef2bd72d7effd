package statemachine

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// ApprovalStatus is how an approval stands (M-3, S0-165).
type ApprovalStatus string

// The statuses of an approval. All but pending are final (S0-166), but for a grant that opens something for a session or for good:
// somebody can take that back.
const (
	ApprovalPending  ApprovalStatus = "pending"
	ApprovalGranted  ApprovalStatus = "granted"
	ApprovalRejected ApprovalStatus = "rejected"
	ApprovalExpired  ApprovalStatus = "expired"
	ApprovalRevoked  ApprovalStatus = "revoked"
)

// Approval is the fold of the events of one approval.
type Approval struct {
	events.Approval

	Status      ApprovalStatus `json:"status"`
	RequestedAt time.Time      `json:"requested_at"`
	// Votes are those that agreed, the last of a quorum apart.
	Votes []events.Decision `json:"votes,omitempty"`
	// Decision is how it was granted or rejected.
	Decision *events.Decision `json:"decision,omitempty"`
	// Revoked is how the grant was taken back.
	Revoked *events.Decision `json:"revoked,omitempty"`
	// DecidedAt is when it came to its end.
	DecidedAt time.Time `json:"decided_at,omitzero"`
	Reminded  bool      `json:"reminded,omitempty"`
	// Spent is set when the call that it is for has begun: a grant is good for one (S0-053).
	Spent bool `json:"spent,omitempty"`
	// HeldFor is the step whose call has begun with the grant and then asked a question, left a note or is tried again: the
	// grant stays with this call, however long it takes, and is nobody else's.
	HeldFor string `json:"held_for,omitempty"`
	// Uses say of the covered calls that have begun whether they hold the grant, by the key of their step.
	Uses map[string]Use `json:"uses,omitempty"`
}

// Use is how a call has used the grant that covers it.
type Use struct {
	// Held is true when the call goes on and has the grant still: it has asked a question, left a note or is tried again.
	Held bool `json:"held,omitempty"`
}

// Usable reports whether the grant lets its call through at a time: it is not spent, and not too old.
func (a *Approval) Usable(at time.Time) bool {
	if a.Status != ApprovalGranted || a.Spent {
		return false
	}
	return a.Decision.ValidUntil == nil || at.Before(*a.Decision.ValidUntil)
}

// UsableFor is Usable for the call of a step, which may have begun with the grant before it asked a question, left
// a note or failed.
func (a *Approval) UsableFor(step string, at time.Time) bool {
	if len(a.Covers) > 0 {
		use, used := a.Uses[step]
		return a.Cover(step) != nil && a.Status == ApprovalGranted && (use.Held || !used && a.Usable(at))
	}
	return a.HeldFor == step || a.Usable(at)
}

// Cover returns what the approval allows of a step, nil for nothing.
func (a *Approval) Cover(step string) *events.Cover {
	for i := range a.Covers {
		if a.Covers[i].Step == step {
			return &a.Covers[i]
		}
	}
	return nil
}

// Digest is the digest of the arguments with which the grant lets the call of a step through.
func (a *Approval) Digest(step string) string {
	if c := a.Cover(step); c != nil {
		return c.ArgsSHA256
	}
	return a.ArgsSHA256
}

// use notes that the call of a step has begun with the grant, and whether it holds it.
func (a *Approval) use(step string, held bool) {
	if a.Uses == nil {
		a.Uses = map[string]Use{}
	}
	a.Uses[step] = Use{Held: held}
}

// Approval returns the approval of an id, nil when the task has none such.
func (t *Task) Approval(id string) *Approval {
	for _, a := range t.Approvals {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// Undecided reports whether an approval of the task is pending.
func (t *Task) Undecided() bool {
	for _, a := range t.Approvals {
		if a.Status == ApprovalPending {
			return true
		}
	}
	return false
}

// approve folds an event of an approval; false when it is none.
func (t *Task) approve(at time.Time, e events.Event) (bool, error) {
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
		return true, t.pending(d.ID, func(a *Approval) { a.decide(e.Kind, d) })
	case *events.Used:
		return true, t.lend(d)
	case *events.Elapsed:
		return true, t.pending(d.ID, func(a *Approval) { a.elapse(e.Kind, d) })
	default:
		return false, nil
	}
}

// pending changes a pending approval.
func (t *Task) pending(id string, change func(*Approval)) error {
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

// lend uses a grant up for a call of another task.
func (t *Task) lend(d *events.Used) error {
	a := t.Approval(d.ID)
	if a == nil || a.Status != ApprovalGranted || a.Spent {
		return fault.New(fault.StateNotAllowed, "the task has no unused grant %s", d.ID)
	}
	a.Spent = true
	return nil
}

// revoke takes back what a grant has opened.
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

// spend uses up the grant that let a call through. One that opens targets for the whole task stays.
func (t *Task) spend(s *Step) {
	switch a := t.grant(s); {
	case a == nil:
	case len(a.Covers) > 0:
		a.use(s.Key, false)
	default:
		a.Spent, a.HeldFor = true, ""
	}
}

// keepsGrant reports whether the next attempt of a call has the grant of the one that has failed.
func keepsGrant(e events.Event) bool {
	d, ok := e.Data.(*events.Retrying)
	return ok && d.KeepsGrant
}

// hold keeps the grant that let a call through for the next attempt of this call, which has asked a question, left
// a note, or failed in a way that is known and is tried again.
func (t *Task) hold(s *Step) {
	switch a := t.grant(s); {
	case a == nil:
	case len(a.Covers) > 0:
		if _, used := a.Uses[s.Key]; used {
			a.use(s.Key, true)
		}
	case a.Spent:
		a.HeldFor = s.Key
	}
}

// grant returns the approval that is for the call of a step alone, nil when there is none.
func (t *Task) grant(s *Step) *Approval {
	if s.Approval == "" {
		return nil
	}
	if a := t.Approval(s.Approval); a != nil && len(a.Scopes) == 0 {
		return a
	}
	return nil
}
