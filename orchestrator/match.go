package orchestrator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// dispatchOwner is what the dispatcher asks of the owner. The lock is held.
type dispatchOwner struct{ o *Orchestrator }

// Halted implements dispatch.Owner.
func (d dispatchOwner) Halted() bool { return d.o.held(holdNode, "") }

// Paused implements dispatch.Owner.
func (d dispatchOwner) Paused(l dispatch.Lane) bool { return d.o.lanePaused(l) }

// Requeue implements dispatch.Owner.
func (d dispatchOwner) Requeue(worker string, call work.Ref) { d.o.requeueCall(worker, call) }

// Lend implements dispatch.Owner.
func (d dispatchOwner) Lend(q *dispatch.Queued, worker string) (dispatch.Offer, bool) {
	e := d.o.tasks[q.Task]
	s := e.task.Steps[q.Step]
	if s.State != statemachine.StepReady || s.Attempt != q.Attempt || d.o.stays(e, s) {
		return dispatch.Offer{}, false
	}
	d.o.grant(e, &dispatch.Lease{Ref: q.Ref, Worker: worker, Tool: q.Lane.Tool})
	return d.o.offer(e, s), true
}

// lanePaused reports whether the calls of the lane are paused.
func (o *Orchestrator) lanePaused(l dispatch.Lane) bool {
	return o.held(holdQueue, l.Queue) || o.held(holdTool, l.Tool)
}

// stays reports whether a ready call may not go to a worker for what its task is in.
func (o *Orchestrator) stays(e *entry, s *statemachine.Step) bool {
	return e.held() || o.rules.Barred(e.task, s)
}

// held reports whether the task is paused. A task that is being cancelled still runs its `always` steps.
func (e *entry) held() bool { return e.task.Paused && !e.task.Cancelling }

// grant puts a call into the hands of a worker for one lease time. The lock is held.
func (o *Orchestrator) grant(e *entry, l *dispatch.Lease) {
	l.Length, l.Share, l.Suspect = o.leaseOf(e, l.Step), shareOf(e.task), decide.Suspect(e.task.Steps[l.Step])
	o.dispatcher.Give(&e.calls, l)
}

// minLease is the shortest lease: a worker has to beat several times in it.
const minLease = 100 * time.Millisecond

// leaseOf is the longest silence of the worker of a step: the step's `heartbeat`, or that of the node.
func (o *Orchestrator) leaseOf(e *entry, step string) time.Duration {
	n := e.nodeOf(step)
	if n == nil || n.Heartbeat <= 0 {
		if e.task.Steps[step].For != nil {
			return work.AgentLease
		}
		return o.cfg.Lease
	}
	return max(time.Duration(n.Heartbeat), minLease)
}

func (o *Orchestrator) offer(e *entry, s *statemachine.Step) dispatch.Offer {
	r := e.read()
	call := work.Call{
		Ref:      work.Ref{Task: e.id, Step: s.Key, Attempt: s.Attempt},
		Announce: !s.Noted() && (s.Attempt > 1 || s.Since.Before(o.started)),
		Tool:     s.Tool, Effect: s.Effect, State: o.gateState(e.task, s), Timeout: s.Timeout,
		Lease: e.calls.Leases[s.Key].Length, Name: e.task.Submitted.Name, KeyOf: e.task.Submitted.KeyOf,
		Requester: o.caller(e, s), Declared: r.Declared(s),
		Session: decide.ContextOf(e.task), Client: e.task.Submitted.Client, Note: s.Note, Away: s.Noted(), Anew: s.Anew,
	}
	call.Handover = s.Handover
	of := dispatch.Offer{Call: call, Args: s.Args, Handed: s.Handed, Answers: answersOf(e.task, s.Key)}
	tool, ok := o.cfg.Catalogue.Get(s.Tool)
	if !ok {
		return of
	}
	spec := tool.Spec()
	of.Call.Secrets = r.SecretsOf(s)
	o.describeGate(e, s, spec, &of.Call)
	if spec.NeedsReads {
		of.Call.Reads = maps.Clone(e.task.Reads)
	}
	if spec.NeedsCheckpoints {
		of.Checkpoints = slices.Clone(e.task.Checkpoints)
	}
	return of
}

// maxParents bounds how far up the parents of a task are followed.
const maxParents = 64

// caller is who a call acts for: whoever made it inside the task, else whoever submitted that. The lock is held.
func (o *Orchestrator) caller(e *entry, s *statemachine.Step) string {
	return cmp.Or(s.By, o.requester(e))
}

// CallerOf returns who a running call acts for, such as agent:builder. CONFLICT when the attempt is not, or no longer,
// in the hands of a worker: what it asks for comes too late. UNAVAILABLE when it soon will be again, as after a restart
// of the node. FORBIDDEN when nobody is known to have made the call.
func (o *Orchestrator) CallerOf(_ context.Context, ref work.Ref) (string, error) {
	if err := o.serving(); err != nil {
		return "", err
	}
	o.lock()
	defer o.unlock()
	e := o.tasks[ref.Task]
	if e == nil || e.task == nil || e.task.Steps[ref.Step] == nil || e.task.Steps[ref.Step].Attempt != ref.Attempt {
		return "", lateFor(ref)
	}
	s, l := e.task.Steps[ref.Step], e.calls.Leases[ref.Step]
	switch {
	case l != nil && l.Attempt == ref.Attempt:
	case s.State == statemachine.StepReady:
		return "", fault.New(fault.Unavailable, "the call %s of task %s is in nobody's hands now", ref.Step, ref.Task).WithHint("try again in a moment")
	default:
		return "", lateFor(ref)
	}
	if who := o.caller(e, s); who != "" {
		return who, nil
	}
	return "", fault.New(fault.Forbidden, "nobody is known to have made the call %s of task %s", ref.Step, ref.Task)
}

// requester is who submitted the task. A sub-plan acts for whoever submitted the first of its parents; "" when that
// one is not at hand, which only earlier versions did not write down. The lock is held.
func (o *Orchestrator) requester(e *entry) string {
	for range maxParents {
		parent := e.task.Submitted.Parent
		switch {
		case parent == nil:
			return e.task.Requestor
		case parent.Requester != "":
			return parent.Requester
		}
		if e = o.tasks[parent.Task]; e == nil || e.task == nil || e.task.Submitted == nil {
			return ""
		}
	}
	return ""
}

// sinceOf is when the task was made, or the first of its parents.
func sinceOf(e *entry) time.Time {
	if parent := e.task.Submitted.Parent; parent != nil && !parent.Since.IsZero() {
		return parent.Since
	}
	return e.task.CreatedAt
}

// gateState is the state in which the gate sees a call: a step of the plan starts the task, a single
// call finds it as it is. One with a note has passed its gate before.
func (o *Orchestrator) gateState(t *statemachine.Task, s *statemachine.Step) string {
	tool, known := o.cfg.Catalogue.Get(s.Tool)
	switch {
	case known && s.Noted() && !slices.Contains(tool.Spec().Gate.States(), t.State):
		return string(tool.Spec().Gate.States()[0])
	case (t.State == statemachine.NeedsAction || t.State == statemachine.Assigned) && s.Purpose != decide.PurposeCall:
		return string(statemachine.InProgress)
	default:
		return string(t.State)
	}
}

// requeueCall queues a call again that its worker has never seen. The lock is held.
func (o *Orchestrator) requeueCall(worker string, ref work.Ref) {
	e := o.tasks[ref.Task]
	if e == nil || e.task == nil {
		return
	}
	l, s := e.calls.Leases[ref.Step], e.task.Steps[ref.Step]
	if l == nil || l.Worker != worker || l.Attempt != ref.Attempt || l.Called {
		return // it was seen, or the lease has expired meanwhile
	}
	o.drop(e, ref.Step)
	if s != nil && s.State == statemachine.StepReady && !o.stays(e, s) {
		o.queueCall(e, s)
	}
}

// drop ends the lease of a step whose call is over. The lock is held.
func (o *Orchestrator) drop(e *entry, step string) {
	delete(e.progress, step)
	o.dispatcher.Drop(&e.calls, step)
}
