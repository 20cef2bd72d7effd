package main

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// approvalID resolves a reference to an approval. The reference is the id of an approval, the beginning or end of the id of a
// pending approval, or a task that has a single pending approval.
func (c *approvalCommands) approvalID(ctx context.Context, s session, text string) (string, error) {
	_, invalid := events.TaskOfApproval(text)
	if invalid == nil {
		return text, nil
	}
	candidates, task, err := c.matchingPending(ctx, s, text)
	if err != nil {
		return "", err
	}
	if task != "" && len(candidates) == 0 {
		return "", fault.New(fault.Conflict, "no approval of the task %s is pending", task).WithHint("orch explain %s shows what it waits for", task)
	}
	return uniqueID(text, candidates, invalid)
}

// grantID resolves a reference to a permanent grant: its id, or the beginning or end of its id.
func (c *approvalCommands) grantID(ctx context.Context, s session, text string) (string, error) {
	_, invalid := events.TaskOfApproval(text)
	if invalid == nil {
		return text, nil
	}
	grants, err := grantsOf(ctx, c, s, nil)
	if err != nil {
		return "", err
	}
	var candidates []string
	for _, g := range grants {
		if g.Status == statemachine.ApprovalGranted && matchesID(text, g.ID) {
			candidates = append(candidates, g.ID)
		}
	}
	return uniqueID(text, candidates, invalid)
}

// uniqueID returns the single element of candidates, the ids that text may refer to. It returns an error if there are several,
// and invalid if there are none.
func uniqueID(text string, candidates []string, invalid error) (string, error) {
	switch len(candidates) {
	case 0:
		return "", invalid
	case 1:
		return candidates[0], nil
	default:
		return "", fault.New(fault.ValidationError, "%q may mean %d approvals", text, len(candidates)).WithField("approval_id").
			WithHint("name one of %s", strings.Join(candidates[:min(len(candidates), 5)], ", "))
	}
}

// matchesID reports whether text is the beginning or end of an id and has at least four characters.
func matchesID(text, id string) bool {
	const shortest = 4
	text, id = strings.ToUpper(text), strings.ToUpper(id)
	return len(text) >= shortest && (strings.HasPrefix(id, text) || strings.HasPrefix(id, "APR_"+text) || strings.HasSuffix(id, text))
}

// matchingPending returns the pending approvals that a text may refer to, and the task if it refers to one.
func (c *approvalCommands) matchingPending(ctx context.Context, s session, text string) (candidates []string, task events.TaskID, err error) {
	var r api.ApprovalsRequest
	if ref := strings.ToUpper(text); strings.HasPrefix(ref, "TASK_") || ref == "@LAST" {
		if r.Task, err = c.find(ctx, s, text); err != nil {
			return nil, "", err
		}
	}
	reply, err := s.Approvals(ctx, r)
	for _, p := range reply.Approvals {
		if r.Task != "" || matchesID(text, p.ID) {
			candidates = append(candidates, p.ID)
		}
	}
	return candidates, r.Task, err
}
