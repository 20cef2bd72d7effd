package orchestrator

import (
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// This file holds what a plan says about the approvals of its calls: who decides, how many, until when, and what follows when
// nobody does.

// termsOf is what the plan says about the approval of a call; nil for nothing.
func (t *reading) termsOf(s *statemachine.Step) *plan.Approval {
	if n := t.nodeByKey(s.Key); n != nil && s.Purpose == "" {
		return n.Approval
	}
	return nil
}

// inTerms makes the request of a call one as its plan says.
func (t *turn) inTerms(s *statemachine.Step, a *events.Approval) *events.Approval {
	terms := t.termsOf(s)
	if terms == nil {
		return a
	}
	if terms.Timeout > 0 {
		a.ExpiresAt = t.now.Add(terms.Timeout.Std())
	}
	a.From, a.Quorum, a.OnExpiry = terms.From, terms.Quorum, onExpiryOf(terms)
	return a
}

// onExpiryOf is what becomes of a call that nobody has decided about.
func onExpiryOf(terms *plan.Approval) string {
	switch terms.OnExpiry {
	case "fail":
		return onExpiryReject
	case "":
		return onExpiryBlock
	default:
		return terms.OnExpiry
	}
}

// sameTerms reports whether an approval is decided about as the plan says of a call, so that the call may share it.
func (t *reading) sameTerms(s *statemachine.Step, a *statemachine.Approval) bool {
	terms := t.termsOf(s)
	if terms == nil {
		return true
	}
	return max(a.Quorum, 1) >= max(terms.Quorum, 1) && slices.Equal(a.From, terms.From) && a.OnExpiry == onExpiryOf(terms)
}

// keepsGrant reports whether the grant of an attempt that has failed is good for the next one: how it ended is known, and it
// was allowed.
func (t *reading) keepsGrant(s *statemachine.Step, class string) bool {
	return s.Approval != "" && s.State == statemachine.StepRunning && !plan.LeavesDoubt(class)
}
