package main

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// approvalID resolves a reference to an approval: its id, the beginning or the end of a pending one's id, or a task with a
// single pending approval.
func (c *approvalCommands) approvalID(ctx context.Context, s session, text string) (string, error) {
	_, invalid := events.TaskOfApproval(text)
	if invalid == nil {
		return text, nil
	}
	meant, err := c.matchingPending(ctx, s, text)
	if err != nil {
		return "", err
	}
	return uniqueID(text, meant, invalid)
}

// grantID resolves a reference to a permanent grant: its id, or the beginning or the end of that.
func (c *approvalCommands) grantID(ctx context.Context, s session, text string) (string, error) {
	_, invalid := events.TaskOfApproval(text)
	if invalid == nil {
		return text, nil
	}
	grants, err := grantsOf(ctx, c, s, nil)
	if err != nil {
		return "", err
	}
	var meant []string
	for _, g := range grants {
		if g.Status == statemachine.ApprovalGranted && matchesID(text, g.ID) {
			meant = append(meant, g.ID)
		}
	}
	return uniqueID(text, meant, invalid)
}

// uniqueID returns the only id that a text may refer to.
func uniqueID(text string, meant []string, invalid error) (string, error) {
	switch len(meant) {
	case 0:
		return "", invalid
	case 1:
		return meant[0], nil
	default:
		return "", fault.New(fault.ValidationError, "%q may mean %d approvals", text, len(meant)).WithField("approval_id").
			WithHint("name one of %s", strings.Join(meant[:min(len(meant), 5)], ", "))
	}
}

// matchesID reports whether a text is the beginning or the end of an id, at least four characters.
func matchesID(text, id string) bool {
	const shortest = 4
	text, id = strings.ToUpper(text), strings.ToUpper(id)
	return len(text) >= shortest && (strings.HasPrefix(id, text) || strings.HasPrefix(id, "APR_"+text) || strings.HasSuffix(id, text))
}

// matchingPending returns the pending approvals that a text may refer to.
func (c *approvalCommands) matchingPending(ctx context.Context, s session, text string) (meant []string, err error) {
	var r api.ApprovalsRequest
	if of := strings.ToUpper(text); strings.HasPrefix(of, "TASK_") || of == "@LAST" {
		if r.Task, err = c.find(ctx, s, text); err != nil {
			return nil, err
		}
	}
	reply, err := s.Approvals(ctx, r)
	for _, p := range reply.Approvals {
		if r.Task != "" || matchesID(text, p.ID) {
			meant = append(meant, p.ID)
		}
	}
	return meant, err
}
