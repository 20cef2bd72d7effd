// Package bulk does one act on all tasks that a filter selects: it cancels, retries or redrives them, or grants their approvals.
//
// A dry run shows the set and its digest. A request with this digest acts on that set or not at all.
package bulk

import (
	"cmp"
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Node is what this package needs of a node.
type Node interface {
	List(ctx context.Context, r api.ListRequest) (api.ListReply, error)
	Get(ctx context.Context, r api.GetRequest) (api.TaskView, error)
	Approvals(ctx context.Context, r api.ApprovalsRequest) (api.ApprovalsReply, error)
	Cancel(ctx context.Context, r api.CancelRequest) (api.TaskView, error)
	Retry(ctx context.Context, r api.RetryRequest) (api.SubmitReply, error)
	Redrive(ctx context.Context, r api.RedriveRequest) (api.SubmitReply, error)
	Decide(ctx context.Context, r api.DecideRequest) (api.ApprovalView, error)
}

// Item is one task or approval of a set, and what became of it.
type Item struct {
	ID   string        `json:"id"`
	Task events.TaskID `json:"task"`
	Name string        `json:"name"`
	// State is that of the task, or of the approval, when it was selected.
	State string `json:"state"`
	// Result is the state after the act, or the task that it has submitted. Error is set if the act was refused or has failed.
	Result string       `json:"result,omitempty"`
	Error  *fault.Error `json:"error,omitempty"`

	rev uint64
}

// Report says what was selected and done.
type Report struct {
	Act    string `json:"act"`
	DryRun bool   `json:"dry_run,omitempty"`
	Items  []Item `json:"items"`
	Count  int    `json:"count"`
	// Set is the digest of the ids of the items; empty for no items.
	Set    string `json:"set"`
	Done   int    `json:"done"`
	Failed int    `json:"failed"`
}

// ReasonSetChanged is the reason of the CONFLICT for a set that is another one now.
const ReasonSetChanged = "SET_CHANGED"

// Select returns the set that a request selects, of which nothing is done yet. Errors: those of Request.Check, CONFLICT with
// ReasonSetChanged, VALIDATION_ERROR for too many items.
func Select(ctx context.Context, n Node, r Request) (Report, error) {
	if err := r.Check(); err != nil {
		return Report{}, err
	}
	items, err := selected(ctx, n, r)
	if err != nil {
		return Report{}, err
	}
	report := Report{Act: r.Act, DryRun: r.DryRun, Items: items, Count: len(items), Set: digest(items)}
	if r.Set != nil && *r.Set != report.Set {
		return Report{}, fault.New(fault.Conflict, "the set has changed: it is %s now", cmp.Or(report.Set, "empty")).WithField("set").
			WithReason(ReasonSetChanged).WithHint("look at it again with a dry run")
	}
	return report, nil
}

// digest returns the digest of the ids of a set.
func digest(items []Item) string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.ID
	}
	return audit.SetDigest(ids)
}

// selected returns the tasks, or their pending approvals, that a request selects.
func selected(ctx context.Context, n Node, r Request) ([]Item, error) {
	if len(r.Where.IDs) > 0 {
		return named(ctx, n, r)
	}
	items, open := []Item{}, r.Act == Cancel && len(r.Where.States) == 0
	most := cmp.Or(r.Max, DefaultMax)
	list := r.Where.list()
	for first := true; first || list.Cursor != ""; first = false {
		page, err := n.List(ctx, list)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tasks {
			if !t.Imported && (!open || !t.State.Terminal()) {
				items = append(items, Item{ID: string(t.ID), Task: t.ID, Name: t.Name, State: string(t.State)})
			}
		}
		list.Cursor = page.Next
		if r.Act != Approve && len(items) > most {
			return nil, tooMany(most)
		}
	}
	if r.Act != Approve {
		return items, nil
	}
	items, err := pending(ctx, n, items)
	if err == nil && len(items) > most {
		err = tooMany(most)
	}
	return items, err
}

func tooMany(most int) error {
	return fault.New(fault.ValidationError, "more than %d are selected", most).WithField("max").WithHint("select fewer, or raise it, up to %d", MaxItems)
}

// pending returns the pending approvals of tasks.
func pending(ctx context.Context, n Node, tasks []Item) ([]Item, error) {
	reply, err := n.Approvals(ctx, api.ApprovalsRequest{})
	if err != nil {
		return nil, err
	}
	if reply.Omitted > 0 || reply.Unread > 0 {
		return nil, errOmitted("where")
	}
	chosen := make(map[events.TaskID]bool, len(tasks))
	for _, t := range tasks {
		chosen[t.Task] = true
	}
	items := []Item{}
	for _, p := range reply.Approvals {
		if chosen[p.Task] {
			items = append(items, itemOf(p))
		}
	}
	return items, nil
}

func errOmitted(field string) error {
	return fault.New(fault.ValidationError, "not all pending approvals can be listed").WithField(field).
		WithHint("decide some of them first: orch approvals --submitter or --task shows them")
}

// itemOf returns the item of an approval.
func itemOf(p api.ApprovalView) Item {
	return Item{ID: p.ID, Task: p.Task, Name: p.Description, State: string(p.Status), rev: p.TaskRev}
}

// Do does the act of a request on each item of its report, and sets what became of it. progress is called before each item with the
// number of those before it. An item that is refused does not hold up the others, a node that does not answer does. The error is the
// first failure, or UNAVAILABLE.
func Do(ctx context.Context, n Node, r Request, report *Report, progress func(done int)) error {
	var failure error
	for i := range report.Items {
		progress(i)
		item := &report.Items[i]
		if fault.Has(failure, fault.Unavailable) {
			report.fail(item, fault.New(fault.Unavailable, "not tried, because the node does not answer"))
			continue
		}
		result, err := one(ctx, n, r, *item)
		if err != nil {
			report.fail(item, err)
			if failure == nil || fault.Has(err, fault.Unavailable) {
				failure = err
			}
			continue
		}
		item.Result = result
		report.Done++
	}
	return failure
}

func (r *Report) fail(item *Item, err error) {
	item.Error = fault.From(err)
	r.Failed++
}

// one acts on an item, unless its task has changed its state since it was selected.
func one(ctx context.Context, n Node, r Request, item Item) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fault.From(err)
	}
	if r.Act == Approve { // the node compares the revision
		p, err := n.Decide(ctx, api.DecideRequest{ID: item.ID, As: "granted", Reason: r.Reason, Actor: r.Actor, SeenRev: item.rev})
		return string(p.Status), err
	}
	t, err := n.Get(ctx, api.GetRequest{ID: item.Task})
	if err != nil {
		return "", err
	}
	if string(t.State) != item.State {
		return "", fault.New(fault.Conflict, "it has changed meanwhile: it was %s, and is %s", item.State, t.State)
	}
	switch r.Act {
	case Cancel:
		t, err := n.Cancel(ctx, api.CancelRequest{ID: item.Task, Reason: r.Reason, Actor: r.Actor})
		return string(t.State), err
	case Retry:
		reply, err := n.Retry(ctx, api.RetryRequest{ID: item.Task, From: r.From, Actor: r.Actor, Via: r.Via})
		return string(reply.ID), err
	default:
		reply, err := n.Redrive(ctx, api.RedriveRequest{ID: item.Task, Actor: r.Actor})
		return string(reply.ID), err
	}
}
