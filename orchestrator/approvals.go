package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// Approvals implements api.Tasks.
func (rd *reader) Approvals(ctx context.Context, r api.ApprovalsRequest) (api.ApprovalsReply, error) {
	if err := checkApprovals(r); err != nil {
		return api.ApprovalsReply{}, err
	}
	if r.ID != "" {
		task, err := events.TaskOfApproval(r.ID)
		if err != nil {
			return api.ApprovalsReply{}, err
		}
		r.Task, r.All = task, true
	}
	ids, unread := []events.TaskID{r.Task}, 0
	if r.Task == "" {
		ids, unread = rd.openTasks(func(t *statemachine.Task) bool {
			return len(t.Approvals) > 0 && (r.All || r.Expired && t.State == statemachine.Blocked || !r.Expired && t.HasPendingApproval())
		}, func(a *sleeper) bool { return !r.Expired && a.Undecided || a.Approvals && r.All })
		rd.loadSleepers(ctx, ids)
	}
	var refs []approvalRef
	for _, id := range ids {
		own, err := rd.refsOf(ctx, id, r)
		if err != nil && (r.Task != "" || !fault.Has(err, fault.NotFound)) {
			return api.ApprovalsReply{}, err
		}
		refs = append(refs, own...)
	}
	if r.ID != "" && len(refs) == 0 {
		return api.ApprovalsReply{}, noApproval(r.ID)
	}
	chosen := chooseFairly(refs, cmp.Or(r.Limit, maxApprovals))
	views, err := rd.chosenViews(ctx, chosen)
	switch {
	case r.ID == "":
		views = fitAnswer(views)
	case err == nil && len(views) == 0: // the task was archived meanwhile
		err = noApproval(r.ID)
	}
	return api.ApprovalsReply{Approvals: views, Omitted: len(refs) - len(chosen), Unread: unread}, err
}

// checkApprovals validates a request.
func checkApprovals(r api.ApprovalsRequest) error {
	if r.Limit < 0 || r.Limit > maxApprovals {
		return fault.New(fault.ValidationError, "must be from 0 to %d", maxApprovals).WithField("limit")
	}
	if r.Expired && r.All {
		return fault.New(fault.ValidationError, "does not go with all").WithField("expired")
	}
	return nil
}

func noApproval(id string) error {
	return fault.New(fault.NotFound, "there is no approval %s", decide.Clip(id)).WithField("approval_id").WithHint("orch approvals lists them")
}

// openTasks returns the open tasks that wanted selects, the sleeping tasks that asleep selects, and the tasks that are still
// being read. unread counts the tasks that could not be read.
func (rd *reader) openTasks(wanted func(*statemachine.Task) bool, asleep func(*sleeper) bool) (ids []events.TaskID, unread int) {
	rd.lock()
	defer rd.unlock()
	for id, a := range rd.engine.asleep {
		if asleep(a) {
			ids = append(ids, id)
		}
	}
	for id, e := range rd.engine.tasks {
		if e.open && (e.task == nil || wanted(e.task)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, len(rd.engine.concurrencyKeys.unread)
}

// approvalsOf returns the approvals of a task whose ids are in wanted.
func (rd *reader) approvalsOf(ctx context.Context, id events.TaskID, wanted map[string]bool) ([]api.ApprovalView, error) {
	var views []api.ApprovalView
	var parts []approvalParts
	err := rd.engine.inspect(ctx, id, func(e *entry) error {
		views, parts = views[:0], parts[:0]
		r := e.read()
		next := approvalOrderOf(e.task)
		for _, a := range e.task.Approvals {
			if !wanted[a.ID] {
				continue
			}
			view := viewOf(e.task, a, rd.now())
			view.Next = next.of(a)
			view.Submitter = cmp.Or(rd.engine.requester(e), view.Submitter)
			view.Lasting = rd.rules.Lasting(e.task, a)
			if rd.cfg.FourEyes {
				view.NotBy = r.Behind(a)
			}
			part := approvalParts{details: a.Details, form: a.Form, calls: a.Calls}
			if s := e.task.Steps[a.Step]; s != nil {
				view.Caller, part.args = s.By, s.Args
			}
			views, parts = append(views, view), append(parts, part)
		}
		return nil
	})
	for i := range parts {
		if err == nil {
			err = rd.showParts(ctx, &views[i], parts[i])
		}
	}
	return views, err
}

// approvalParts are the parts of an approval that may be in the blob store.
type approvalParts struct{ args, details, form, calls events.Value }

// showParts adds the parts to a view. mu must not be held.
func (rd *reader) showParts(ctx context.Context, view *api.ApprovalView, p approvalParts) (err error) {
	if view.Args, err = rd.engine.renderLater(ctx, p.args); err != nil {
		return err
	}
	if view.Details, err = rd.engine.renderLater(ctx, p.details); err != nil {
		return err
	}
	if view.Calls, err = rd.engine.renderLater(ctx, p.calls); err != nil {
		return err
	}
	view.Form, err = rd.engine.renderLater(ctx, p.form)
	return err
}

// viewOf returns the view of an approval at a time, without the parts that may be large (approvalParts).
func viewOf(t *statemachine.Task, a *statemachine.Approval, now time.Time) api.ApprovalView {
	v := api.ApprovalView{
		ID: a.ID, Task: t.ID, TaskName: t.Submitted.Name, TaskState: t.State, TaskRev: t.Rev, Step: a.Step, Status: a.Status, Type: a.Type,
		Tool: a.Tool, ArgsSHA256: a.ArgsSHA256, Scopes: a.Scopes, Offers: a.Offers, Description: a.Description, Rationale: a.Rationale,
		Priority: a.Priority, Risk: a.Risk, Requester: a.Requester, Submitter: t.Requestor,
		RequestedAt: a.RequestedAt, ExpiresAt: a.ExpiresAt, OnExpiry: a.OnExpiry, Quorum: a.Quorum, From: a.From,
		Spent: a.Spent, Follows: a.Follows,
	}
	for _, vote := range a.Votes {
		v.Votes = append(v.Votes, vote.Approver)
	}
	if a.Decision != nil {
		v.Approver, v.Reason, v.Disposition = a.Decision.Approver, a.Decision.Reason, a.Decision.Disposition
	}
	if !a.DecidedAt.IsZero() {
		v.DecidedAt = &a.DecidedAt
	}
	if status, expired := statusAt(a, now); expired {
		v.Status, v.DecidedAt = status, &a.ExpiresAt
	}
	if r := a.Revoked; r != nil {
		v.RevokedBy, v.Reason, v.DecidedAt = r.Approver, r.Reason, &r.At
	}
	return v
}

// statusAt returns the status of an approval at a time. An approval of a finished task expires without an event.
func statusAt(a *statemachine.Approval, now time.Time) (status statemachine.ApprovalStatus, expired bool) {
	if a.Status == statemachine.ApprovalPending && !now.Before(a.ExpiresAt) {
		return statemachine.ApprovalExpired, true
	}
	return a.Status, false
}

// statusesOf returns the approvals of a task by id, with the fields that calls of the task see (work.Call.Approvals).
func statusesOf(t *statemachine.Task) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for _, a := range t.Approvals {
		view := viewOf(t, a, t.UpdatedAt)
		all[a.ID] = decide.MustJSON(struct {
			Status    statemachine.ApprovalStatus `json:"status"`
			Approver  string                      `json:"approver,omitempty"`
			DecidedAt *time.Time                  `json:"decided_at,omitempty"`
			Reason    string                      `json:"reason,omitempty"`
		}{view.Status, view.Approver, view.DecidedAt, view.Reason})
	}
	return all
}

// approver records the decisions about approvals and the answers to questions that people give.
type approver struct {
	*core

	engine    *engine
	reader    *reader
	submitter *submitter
	clean     *cleaner
}

// Decide implements api.Tasks.
func (ap *approver) Decide(ctx context.Context, r api.DecideRequest) (api.ApprovalView, error) {
	id, err := events.TaskOfApproval(r.ID)
	if err != nil {
		return api.ApprovalView{}, err
	}
	if err := checkDecision(r); err != nil {
		return api.ApprovalView{}, err
	}
	form, err := ap.clean.normalize(r.Form)
	if err != nil {
		return api.ApprovalView{}, fault.From(err).WithField("form")
	}
	if len(r.Always) > 0 {
		if err := ap.createStanding(ctx, id); err != nil {
			return api.ApprovalView{}, err
		}
	}
	err = seen{id, r.SeenRev, r.Actor}.change(ctx, ap.reader, func(t *decide.Turn) error {
		a := t.Task.Approval(r.ID)
		if a == nil {
			return noApproval(r.ID)
		}
		if r.As == decidedRevoked {
			return t.Approvals().Revoke(a, r)
		}
		if err := t.Approvals().MayDecide(a, r); err != nil {
			return err
		}
		return t.Approvals().DecideApproval(a, r, form)
	})
	if err == nil && len(r.Always) > 0 {
		err = ap.storeStanding(ctx, id, r.ID)
	}
	if err != nil {
		return api.ApprovalView{}, err
	}
	reply, err := ap.reader.Approvals(ctx, api.ApprovalsRequest{ID: r.ID})
	if err != nil {
		return api.ApprovalView{}, err
	}
	return reply.Approvals[0], nil
}

// decidedRevoked is the value of DecideRequest.As that withdraws a grant.
const decidedRevoked = "revoked"

func checkDecision(r api.DecideRequest) error {
	switch {
	case r.As != "granted" && r.As != "rejected" && r.As != "revise" && r.As != decidedRevoked:
		return fault.New(fault.ValidationError, "must be granted, rejected, revise or revoked").WithField("as")
	case r.As != "granted" && (len(r.Opens) > 0 || len(r.Always) > 0):
		return fault.New(fault.ValidationError, "only a grant opens scopes").WithField("opens")
	case r.As != "granted" && r.As != decidedRevoked && strings.TrimSpace(r.Reason) == "":
		return fault.New(fault.RequiredField, "a rejection needs a reason").WithField("reason")
	case !decide.IsUser(r.Actor):
		return fault.New(fault.Forbidden, "only people decide about approvals, not %q", decide.Clip(r.Actor)).
			WithHint("orch approve, by somebody with the operator's credential")
	}
	return nil
}
