package main

import (
	"context"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// approvalID resolves a reference to an approval. The reference is the id of an approval, the beginning or end of the id of a
// pending approval, or a task that has a single pending approval, itself or its descendants.
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
	return uniqueID("approvals", text, candidates, invalid)
}

// questionID resolves a reference to a question: its id, or a task that has a single open question, itself or its descendants.
func (c *approvalCommands) questionID(ctx context.Context, s session, text string) (string, error) {
	_, invalid := events.TaskOfQuestion(text)
	if invalid == nil || !namesTask(text) {
		return text, nil
	}
	task, err := c.find(ctx, s, text)
	if err != nil {
		return "", err
	}
	reply, err := s.Questions(ctx, api.QuestionsRequest{})
	if err != nil {
		return "", err
	}
	var candidates []string
	family := newDescent(s, task)
	for _, q := range reply.Questions {
		if in, err := family.includes(ctx, q.Task); err != nil {
			return "", err
		} else if in {
			candidates = append(candidates, q.ID)
		}
	}
	if len(candidates) == 0 {
		return "", fault.New(fault.Conflict, "no question of the task %s is open", task).WithHint("orch explain %s shows what it waits for", task)
	}
	return uniqueID("questions", text, candidates, invalid)
}

// descent tells which tasks descend from a root.
type descent struct {
	s    session
	root events.TaskID
	// known holds what was found out already.
	known map[events.TaskID]bool
}

func newDescent(s session, root events.TaskID) descent {
	return descent{s: s, root: root, known: map[events.TaskID]bool{}}
}

// includes reports whether a task is the root or descends from it.
func (d *descent) includes(ctx context.Context, id events.TaskID) (bool, error) {
	if id == d.root || id == "" {
		return id != "", nil
	}
	if in, known := d.known[id]; known {
		return in, nil
	}
	t, err := d.s.Get(ctx, api.GetRequest{ID: id})
	if err != nil && !fault.Has(err, fault.NotFound) && !fault.Has(err, fault.Gone) {
		return false, err
	}
	in, err := d.includes(ctx, t.Parent)
	d.known[id] = in
	return in, err
}

// namesTask reports whether a text is a reference to a task.
func namesTask(text string) bool {
	ref := strings.ToUpper(text)
	return strings.HasPrefix(ref, "TASK_") || ref == "@LAST"
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
	return uniqueID("approvals", text, candidates, invalid)
}

// uniqueID returns the single element of candidates, the ids of what text may refer to. It returns an error if there are several,
// and invalid if there are none.
func uniqueID(what, text string, candidates []string, invalid error) (string, error) {
	switch len(candidates) {
	case 0:
		return "", invalid
	case 1:
		return candidates[0], nil
	default:
		return "", fault.New(fault.ValidationError, "%q may mean %d %s", text, len(candidates), what).WithField("ID").
			WithHint("name one of %s", strings.Join(candidates[:min(len(candidates), 5)], ", "))
	}
}

// matchesID reports whether text is the beginning or end of an id and has at least four characters.
func matchesID(text, id string) bool {
	const shortest = 4
	text, id = strings.ToUpper(text), strings.ToUpper(id)
	return len(text) >= shortest && (strings.HasPrefix(id, text) || strings.HasPrefix(id, events.ApprovalPrefix+text) || strings.HasSuffix(id, text))
}

// matchingPending returns the pending approvals that a text may refer to, and the task if it refers to one.
func (c *approvalCommands) matchingPending(ctx context.Context, s session, text string) (candidates []string, task events.TaskID, err error) {
	if namesTask(text) {
		if task, err = c.find(ctx, s, text); err != nil {
			return nil, "", err
		}
	}
	reply, err := s.Approvals(ctx, api.ApprovalsRequest{})
	if err != nil || task == "" {
		for _, p := range reply.Approvals {
			if matchesID(text, p.ID) {
				candidates = append(candidates, p.ID)
			}
		}
		return candidates, task, err
	}
	own, err := s.Approvals(ctx, api.ApprovalsRequest{Task: task}) // of very many, reply may have a part
	if err != nil {
		return nil, task, err
	}
	family := newDescent(s, task)
	for _, p := range append(own.Approvals, reply.Approvals...) {
		if in, err := family.includes(ctx, p.Task); err != nil {
			return nil, task, err
		} else if in && !slices.Contains(candidates, p.ID) {
			candidates = append(candidates, p.ID)
		}
	}
	return candidates, task, nil
}
