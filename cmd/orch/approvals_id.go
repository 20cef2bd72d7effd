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
	meant, err := c.meantBy(ctx, s, text)
	if err != nil {
		return "", err
	}
	return theOne(text, meant, invalid)
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
		if g.Status == statemachine.ApprovalGranted && names(text, g.ID) {
			meant = append(meant, g.ID)
		}
	}
	return theOne(text, meant, invalid)
}

// theOne returns the only id that a text may refer to.
func theOne(text string, meant []string, invalid error) (string, error) {
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

// names reports whether a text is the beginning or the end of an id, at least four characters.
func names(text, id string) bool {
	const shortest = 4
	text, id = strings.ToUpper(text), strings.ToUpper(id)
	return len(text) >= shortest && (strings.HasPrefix(id, text) || strings.HasPrefix(id, "APR_"+text) || strings.HasSuffix(id, text))
}

// meantBy returns the pending approvals that a text may refer to.
func (c *approvalCommands) meantBy(ctx context.Context, s session, text string) (meant []string, err error) {
	var r api.ApprovalsRequest
	if of := strings.ToUpper(text); strings.HasPrefix(of, "TASK_") || of == "@LAST" {
		if r.Task, err = c.find(ctx, s, text); err != nil {
			return nil, err
		}
	}
	reply, err := s.Approvals(ctx, r)
	for _, p := range reply.Approvals {
		if r.Task != "" || names(text, p.ID) {
			meant = append(meant, p.ID)
		}
	}
	return meant, err
}
