package orchestrator

import (
	"slices"

	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/traces"
	"github.com/orch-dev/orch/work"
)

// dispatchOwner implements dispatch.Owner. mu must be held.
type dispatchOwner struct{ o *workSource }

// describeGate adds to a call the data about the task that the gates of the worker need.
func (rd *reader) describeGate(e *entry, s *statemachine.Step, spec tools.Spec, call *work.Call) {
	if id := decide.GrantOf(e.task, s, rd.now()); id != "" {
		a := e.task.Approval(id)
		call.Grant = &work.Grant{ID: id, ArgsSHA256: a.Digest(s.Key), Whole: len(a.Covers) > 0}
	}
	if spec.Approval != tools.NoApproval {
		call.Access = accessOf(e)
	}
	if spec.Approval == tools.ByIntent {
		call.Since = sinceOf(e)
	}
	if spec.NeedsApprovals {
		call.Approvals = statusesOf(e.task)
	}
	if spec.NeedsSight {
		call.SeesAll = call.Requester != "" && seesAll(e.task, call.Requester)
	}
	call.Recent, call.RetryAfter = rd.recentCalls(e.task, spec.RateClass())
}

// Halted implements dispatch.Owner.
func (d dispatchOwner) Halted() bool { return d.o.reader.pauses.paused(pauseNode, "") }

// Paused implements dispatch.Owner.
func (d dispatchOwner) Paused(l dispatch.Lane) bool { return d.o.reader.pauses.lanePaused(l) }

// Requeue implements dispatch.Owner.
func (d dispatchOwner) Requeue(worker string, call work.Ref) { d.o.engine.requeueCall(worker, call) }

// Lease implements dispatch.Owner.
func (d dispatchOwner) Lease(q *dispatch.Queued, worker string) *dispatch.Offer {
	e := d.o.engine.tasks[q.Task]
	if e == nil || e.task == nil || e.task.Steps[q.Step] == nil || e.calls.Queued.Get(q.Step) != q { // it was removed from memory
		return nil
	}
	s := e.task.Steps[q.Step]
	if s.State != statemachine.StepReady || s.Attempt != q.Attempt || d.o.queue.mustWait(e, s) {
		return nil
	}
	d.o.queue.take(e, q, worker)
	return d.o.offer(e, s)
}

// offer returns the offer of a ready call. mu must be held.
func (ws *workSource) offer(e *entry, s *statemachine.Step) *dispatch.Offer {
	r := e.read()
	call := work.Call{
		Ref:      work.Ref{Task: e.id, Step: s.Key, Attempt: s.Attempt},
		Announce: !s.RunsElsewhere() && (s.Attempt > 1 || s.Since.Before(ws.started) || decide.AsksModel(s)),
		Tool:     s.Tool, Effect: s.Effect, State: ws.reader.gateState(e.task, s), Timeout: s.Timeout,
		Lease: e.calls.Leases.Get(s.Key).TTL, Name: decide.NameOf(e.task), KeyOf: e.task.Submitted.KeyOf,
		Requester: ws.engine.caller(e, s), Declared: r.Declared(s),
		Session: decide.ContextOf(e.task), Client: e.task.Submitted.Client, Note: s.Note, Away: s.RunsElsewhere(), Anew: s.Rerun,
		Trace: traces.Below(e.id, e.task.Submitted), TraceState: traces.StateBelow(e.task.Submitted),
	}
	call.Handover = s.Handover
	if e.task.Part != nil {
		call.Home = decide.HomeOf(e.task)
	}
	of := &dispatch.Offer{Call: call, Args: s.Args, Answers: answersOf(e.task, s.Key)}
	if s.Handed != nil {
		of.Handed = *s.Handed
	}
	tool, ok := ws.cfg.Catalogue.Get(s.Tool)
	if !ok {
		return of
	}
	spec := tool.Spec()
	of.Call.Secrets = r.SecretsOf(s)
	ws.reader.describeGate(e, s, spec, &of.Call)
	if spec.NeedsReads {
		of.Call.Reads = ws.engine.parts().readsOf(e)
	}
	if spec.NeedsCheckpoints {
		of.Checkpoints = slices.Clone(e.task.Checkpoints)
	}
	return of
}

// gateState returns the task state that the gate of a tool checks. For a step of the plan, it is the state after the start of
// the task; for a single call, the current state. A call that continues work elsewhere has passed the gate before, so the
// result is a state that the gate allows.
func (rd *reader) gateState(t *statemachine.Task, s *statemachine.Step) string {
	tool, known := rd.cfg.Catalogue.Get(s.Tool)
	switch {
	case known && s.RunsElsewhere() && !slices.Contains(tool.Spec().Gate.States(), t.State):
		return string(tool.Spec().Gate.States()[0])
	case (t.State == statemachine.NeedsAction || t.State == statemachine.Assigned) && s.Purpose != decide.PurposeCall:
		return string(statemachine.InProgress)
	default:
		return string(t.State)
	}
}
