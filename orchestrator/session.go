package orchestrator

import (
	"context"
	"encoding/json"
	"path"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// A session is the shared context of the calls of one client: a workspace, the files that were read, checkpoints, approvals. It
// is a task with its own history, which waits until the session ends. The calls are separate tasks that refer to the session
// and run concurrently.

// maxSessionReads limits the files read by a session that are sent with a call. If there are more, only those with names in the
// arguments are sent.
const maxSessionReads = 500

// checkSession returns an error for a task in a session: CONFLICT if the session has ended, NOT_FOUND if it belongs to a
// different identity.
func (sm *submitter) checkSession(ctx context.Context, r api.SubmitRequest) error {
	if r.Session == "" || r.Session == r.ID {
		return nil
	}
	return sm.mayUse(ctx, r.Session, r.Actor)
}

// mayUse returns why an identity cannot submit tasks in a session, or nil if it can.
func (sm *submitter) mayUse(ctx context.Context, session events.TaskID, actor string) error {
	return sm.engine.inspect(ctx, session, func(e *entry) error {
		switch {
		case !decide.IsSession(e.task) || e.task.Requestor != actor:
			return fault.New(fault.NotFound, "there is no session %s", session).WithField("session")
		case e.task.State.Terminal():
			return fault.New(fault.Conflict, "the session %s is over", session).WithField("session").WithReason(api.ReasonSessionOver)
		}
		return nil
	})
}

// addContext adds to a call the state of its session that the tool needs.
func (ws *workSource) addContext(ctx context.Context, of *dispatch.Offer) error {
	tool, ok := ws.cfg.Catalogue.Get(of.Call.Tool)
	if !ok {
		return nil
	}
	spec, call := tool.Spec(), &of.Call
	var owner string
	err := ws.engine.inspect(ctx, call.Session, func(e *entry) error {
		if spec.NeedsReads {
			call.Reads = readsFor(e.task.Reads, call.Args)
		}
		if spec.NeedsCheckpoints {
			of.Checkpoints = slices.Clone(e.task.Checkpoints)
		}
		if spec.NeedsApprovals {
			call.Approvals = statusesOf(e.task)
		}
		call.Writes, owner = e.task.Submitted.Writes, e.task.Requestor
		if granted := grantedScopes(e.task); len(granted) > 0 {
			call.Access = withScopes(call.Access, granted)
		}
		return nil
	})
	switch {
	case absent(err):
		return nil
	case err != nil || !decide.IsUser(owner):
		return err
	}
	return ws.approver.addStanding(ctx, owner, call)
}

// withScopes adds granted scopes to an access, which may be nil.
func withScopes(access *work.Access, granted []string) *work.Access {
	if access == nil {
		access = &work.Access{}
	}
	access.Scopes = slices.Concat(access.Scopes, granted)
	return access
}

// readsFor returns the entries of all, the files that were read. Of more than maxSessionReads entries, it returns only those
// that the arguments may refer to.
func readsFor(all map[string]string, args json.RawMessage) map[string]string {
	some := make(map[string]string, min(len(all), maxSessionReads))
	names := map[string]bool{}
	if len(all) > maxSessionReads {
		for _, text := range textsIn(args) {
			names[path.Base(text)] = true
		}
	}
	for name, sum := range all {
		if len(all) <= maxSessionReads || names[path.Base(name)] {
			some[name] = sum
		}
	}
	return some
}

// textsIn returns the string fields of arguments, and the strings in their list fields.
func textsIn(args json.RawMessage) (texts []string) {
	var fields map[string]any
	_ = json.Unmarshal(args, &fields)
	for _, v := range fields {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			for _, item := range v {
				if text, ok := item.(string); ok {
					texts = append(texts, text)
				}
			}
		}
	}
	return texts
}

// shareOutcome records the facts of an outcome in the session of the call, before the outcome itself is recorded. So a client
// that has received the outcome finds the facts in the session at its next call. If the call requests an approval that was
// already granted to the session, lent is that approval. mu must be held; it is also held when then is called.
func (ws *workSource) shareOutcome(r *work.Outcome, then func(lent *statemachine.Approval, err error)) {
	e := ws.engine.tasks[r.Task]
	if e == nil || e.task == nil || decide.ContextOf(e.task) == "" || len(r.Facts) == 0 && r.ApprovalRequest == nil {
		then(nil, nil)
		return
	}
	if caller := e.read(); !caller.Holds(r.Ref, r.Worker) {
		then(nil, nil) // the outcome is too late
		return
	}
	facts := r.Facts
	r.Facts = slices.DeleteFunc(slices.Clone(facts), func(f events.Event) bool { return sessionOnly(f.Kind) })
	var lent *statemachine.Approval
	ws.engine.turn(decide.ContextOf(e.task), workerActor(r.Worker), func(t *decide.Turn) error {
		if t.Task.State.Terminal() {
			return nil
		}
		for _, f := range facts {
			if sessionOnly(f.Kind) || f.Kind == events.FileRead {
				t.Attempts().RecordOnce(f)
			}
		}
		if e.task == nil {
			return nil // its newest commit could not be written; the outcome is reported again
		}
		to := e.read()
		lent = t.Approvals().Lend(&to, r)
		return nil
	}, func(err error) {
		if absent(err) {
			err = nil
		}
		then(lent, err)
	})
}

// sessionOnly reports whether facts of a kind are recorded only in the session of a call, not in its task.
func sessionOnly(kind events.Kind) bool {
	return kind == events.CheckpointCreated || kind == events.CheckpointRestored || kind == events.ApprovalRequested
}

// openForSession grants to the session of a task the scopes that a decision about an approval of the task has granted; to the
// task of the for_each, if the task is a part outside of sessions. mu must be held.
func (en *engine) openForSession(e *entry, kind events.Kind, d *events.Decision) {
	session := decide.ContextOf(e.task)
	if session == "" && e.task.Part != nil {
		session = decide.HomeOf(e.task)
	}
	a := e.task.Approval(d.ID)
	if kind != events.ApprovalGranted || session == "" || a == nil {
		return
	}
	opened := slices.Concat(a.Scopes, d.Opens)
	if len(opened) == 0 {
		return
	}
	granted := a.Approval
	granted.Step, granted.Scopes, granted.Offers, granted.Details = "", opened, nil, events.Value{}
	en.turn(session, d.Approver, func(t *decide.Turn) error {
		if have := grantedScopes(t.Task); t.Task.State.Terminal() || !slices.ContainsFunc(opened, func(s string) bool { return !slices.Contains(have, s) }) {
			return nil
		}
		t.Approvals().Adopt(&statemachine.Approval{Approval: granted, Decision: d}, "")
		return nil
	}, ignore)
}
