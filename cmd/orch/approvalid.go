package main

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
)

// approvalID resolves what names an approval: its id, the beginning or the end of that of a pending one, or a task, when a single
// approval of it is pending.
func (a *app) approvalID(ctx context.Context, s session, text string) (string, error) {
	_, invalid := events.TaskOfApproval(text)
	if invalid == nil {
		return text, nil
	}
	meant, err := a.meantBy(ctx, s, text)
	switch {
	case err != nil:
		return "", err
	case len(meant) == 0:
		return "", invalid
	case len(meant) > 1:
		return "", fault.New(fault.ValidationError, "%q may mean %d approvals", text, len(meant)).WithField("approval_id").
			WithHint("name one of %s", strings.Join(meant[:min(len(meant), 5)], ", "))
	}
	return meant[0], nil
}

// meantBy lists the pending approvals that a text may mean.
func (a *app) meantBy(ctx context.Context, s session, text string) (meant []string, err error) {
	const shortest = 4 // characters of an id
	text = strings.ToUpper(text)
	var r orchestrator.ApprovalsRequest
	if strings.HasPrefix(text, "TASK_") || text == "@LAST" {
		if r.Task, err = a.find(ctx, s, text); err != nil {
			return nil, err
		}
	} else if len(text) < shortest {
		return nil, nil
	}
	reply, err := s.Approvals(ctx, r)
	for _, p := range reply.Approvals {
		id := strings.ToUpper(p.ID)
		if r.Task != "" || strings.HasPrefix(id, text) || strings.HasPrefix(id, "APR_"+text) || strings.HasSuffix(id, text) {
			meant = append(meant, p.ID)
		}
	}
	return meant, err
}
