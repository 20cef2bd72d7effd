package bulk

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// named returns the items with the ids of a request. Tasks that have ended are no part of a cancel, and approvals that are decided none of
// an approve: a set that was shown with them has changed.
func named(ctx context.Context, n Node, r Request) ([]Item, error) {
	items, known := []Item{}, map[string]bool{}
	most := cmp.Or(r.Max, DefaultMax)
	for _, id := range r.Where.IDs {
		if err := ctx.Err(); err != nil {
			return nil, fault.From(err)
		}
		var found []Item
		var err error
		switch {
		case r.Act != Approve:
			found, err = namedTask(ctx, n, r.Act, events.TaskID(id))
		case strings.HasPrefix(id, events.ApprovalPrefix):
			found, err = asked(ctx, n, api.ApprovalsRequest{ID: id})
		default:
			found, err = asked(ctx, n, api.ApprovalsRequest{Task: events.TaskID(id)})
		}
		if err != nil && !fault.Has(err, fault.NotFound) { // a task may have been removed since its id was shown
			return nil, err
		}
		for _, item := range found {
			if !known[item.ID] {
				known[item.ID] = true
				items = append(items, item)
			}
		}
		if len(items) > most {
			return nil, tooMany(most)
		}
	}
	return items, nil
}

// checkIDs returns INVALID_FORMAT if an id is empty: it would select the approvals of all tasks.
func checkIDs(r *Request) error {
	if i := slices.Index(r.Where.IDs, ""); i >= 0 {
		return fault.New(fault.InvalidFormat, "the id at index %d is empty", i).WithField("where.ids")
	}
	return nil
}

// namedTask returns the item of a task, none if the act selects no such task.
func namedTask(ctx context.Context, n Node, act string, id events.TaskID) ([]Item, error) {
	t, err := n.Get(ctx, api.GetRequest{ID: id})
	if err != nil || t.Imported != nil || act == Cancel && t.State.Terminal() {
		return nil, err
	}
	return []Item{{ID: string(t.ID), Task: t.ID, Name: t.Name, State: string(t.State)}}, nil
}

// asked returns the items of the pending approvals that a request selects.
func asked(ctx context.Context, n Node, r api.ApprovalsRequest) (items []Item, err error) {
	reply, err := n.Approvals(ctx, r)
	if err == nil && (reply.Omitted > 0 || reply.Unread > 0) {
		return nil, errOmitted("where.ids")
	}
	for _, p := range reply.Approvals {
		if p.Status == statemachine.ApprovalPending {
			items = append(items, itemOf(p))
		}
	}
	return items, err
}
