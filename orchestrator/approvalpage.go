package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// This file chooses the approvals of one answer. There may be more approvals than an answer can hold, and most of them may
// belong to one submitter. Each submitter, together with the agents that it registered, therefore gets an equal part of the
// answer, filled with its most urgent approvals.

// maxApprovals limits the approvals in one answer.
const maxApprovals = 1000

// approvalRef holds the fields of an approval that decide whether it is part of an answer.
type approvalRef struct {
	task events.TaskID
	id   string
	// share is the identity that owns the share of the task, as in shareOf.
	share              string
	rank               int
	expires, requested time.Time
	step               string
}

// byUrgency compares approvals by status and priority, then by the time of expiry, then by that of the request. Within one second
// those of a batch are in the order in which their tasks were submitted.
func byUrgency(a, b approvalRef) int {
	return cmp.Or(
		cmp.Compare(a.rank, b.rank), cmp.Compare(a.expires.Unix(), b.expires.Unix()), cmp.Compare(a.requested.Unix(), b.requested.Unix()),
		cmp.Compare(a.task, b.task), cmp.Compare(a.step, b.step), cmp.Compare(a.id, b.id),
	)
}

// rankOf returns the sort key of an approval: by status, then priority.
func rankOf(status statemachine.ApprovalStatus, priority string) int {
	n := slices.Index([]string{"critical", "high", "medium", "low"}, priority)
	if status != statemachine.ApprovalPending {
		n += 10
	}
	return n
}

// refsOf returns the approvals of a task that match a request.
func (rd *reader) refsOf(ctx context.Context, id events.TaskID, r api.ApprovalsRequest) ([]approvalRef, error) {
	var refs []approvalRef
	err := rd.engine.inspect(ctx, id, func(e *entry) error {
		refs = refs[:0]
		submitter := cmp.Or(rd.engine.requester(e), e.task.Requestor)
		if r.Submitter != "" && r.Submitter != submitter {
			return nil
		}
		share := cmp.Or(e.task.Submitted.Share, submitter)
		next := approvalOrderOf(e.task)
		for _, a := range e.task.Approvals {
			status, _ := statusAt(a, rd.now())
			wanted := r.All || status == statemachine.ApprovalPending
			if r.Expired {
				wanted = next.blocks(a)
			}
			if !wanted || r.ID != "" && a.ID != r.ID {
				continue
			}
			refs = append(refs, approvalRef{
				task: id, id: a.ID, share: share, rank: rankOf(status, a.Priority), expires: a.ExpiresAt, requested: a.RequestedAt, step: a.Step,
			})
		}
		return nil
	})
	return refs, err
}

// chooseFairly chooses at most limit references. It takes one reference of each share in turn, the most urgent first.
func chooseFairly(refs []approvalRef, limit int) []approvalRef {
	slices.SortFunc(refs, byUrgency)
	if len(refs) <= limit {
		return refs
	}
	each := map[string][]approvalRef{}
	var order []string
	for _, ref := range refs {
		if each[ref.share] == nil {
			order = append(order, ref.share)
		}
		each[ref.share] = append(each[ref.share], ref)
	}
	chosen := make([]approvalRef, 0, limit)
	for turn := 0; len(chosen) < limit; turn++ {
		for _, share := range order {
			if own := each[share]; turn < len(own) && len(chosen) < limit {
				chosen = append(chosen, own[turn])
			}
		}
	}
	slices.SortFunc(chosen, byUrgency)
	return chosen
}

// chosenViews returns the views of chosen approvals, in the same order. Approvals that were removed meanwhile are left out.
func (rd *reader) chosenViews(ctx context.Context, chosen []approvalRef) ([]api.ApprovalView, error) {
	wanted := map[events.TaskID]map[string]bool{}
	for _, ref := range chosen {
		if wanted[ref.task] == nil {
			wanted[ref.task] = map[string]bool{}
		}
		wanted[ref.task][ref.id] = true
	}
	byID := map[string]api.ApprovalView{}
	for _, task := range slices.Sorted(maps.Keys(wanted)) {
		views, err := rd.approvalsOf(ctx, task, wanted[task])
		if err != nil && !fault.Has(err, fault.NotFound) {
			return nil, err
		}
		for _, view := range views {
			byID[view.ID] = view
		}
	}
	views := make([]api.ApprovalView, 0, len(chosen))
	for _, ref := range chosen {
		if view, ok := byID[ref.id]; ok {
			views = append(views, view)
		}
	}
	return views, nil
}

// fitAnswer replaces the parts of approvals that do not fit into the answer. The answer to a request for a single approval
// contains them.
func fitAnswer(views []api.ApprovalView) []api.ApprovalView {
	room := maxAnswer
	for i := range views {
		for _, part := range []*json.RawMessage{&views[i].Args, &views[i].Details, &views[i].Form, &views[i].Calls} {
			if room -= len(*part); room < 0 {
				room += len(*part)
				*part = omitted(len(*part))
			}
		}
	}
	return views
}

// omitted is the placeholder for a value that does not fit into the answer.
func omitted(size int) json.RawMessage {
	return decide.MustJSON(map[string]any{"$omitted": "the answer would be too large", "size": size})
}
