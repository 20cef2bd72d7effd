package orchestrator

import (
	"cmp"
	"context"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// callQueue puts the ready calls of tasks where workers find them, and takes them back.
type callQueue struct {
	*core

	holds *holdList
	// dispatcher hands the ready calls to workers.
	dispatcher *dispatch.Dispatcher
}

// stays reports whether a ready call may not go to a worker for what its task is in.
func (cq *callQueue) stays(e *entry, s *statemachine.Step) bool {
	return e.held() || cq.rules.Barred(e.task, s)
}

// grant puts a call into the hands of a worker for one lease time. The lock is held.
func (cq *callQueue) grant(e *entry, l *dispatch.Lease) {
	l.TTL, l.Share, l.Suspect = cq.leaseOf(e, l.Step), shareOf(e.task), decide.Suspect(e.task.Steps[l.Step])
	cq.dispatcher.AddLease(&e.calls, l)
}

// minLease is the shortest lease: a worker has to beat several times in it.
const minLease = 100 * time.Millisecond

// leaseOf is the longest silence of the worker of a step: the step's `heartbeat`, or that of the node.
func (cq *callQueue) leaseOf(e *entry, step string) time.Duration {
	n := e.nodeOf(step)
	if n == nil || n.Heartbeat <= 0 {
		if e.task.Steps[step].For != nil {
			return work.AgentLease
		}
		return cq.cfg.Limits.Lease
	}
	return max(time.Duration(n.Heartbeat), minLease)
}

// maxParents bounds how far up the parents of a task are followed.
const maxParents = 64

// caller is who a call acts for: whoever made it inside the task, else whoever submitted that. The lock is held.
func (en *engine) caller(e *entry, s *statemachine.Step) string {
	return cmp.Or(s.By, en.requester(e))
}

// CallerOf returns who a running call acts for, such as agent:builder. CONFLICT when the attempt is not, or no longer,
// in the hands of a worker: what it asks for comes too late. UNAVAILABLE when it soon will be again, as after a restart
// of the node. FORBIDDEN when nobody is known to have made the call.
func (rd *reader) CallerOf(_ context.Context, ref work.Ref) (string, error) {
	if err := rd.serving(); err != nil {
		return "", err
	}
	rd.lock()
	defer rd.unlock()
	e := rd.engine.tasks[ref.Task]
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
	if who := rd.engine.caller(e, s); who != "" {
		return who, nil
	}
	return "", fault.New(fault.Forbidden, "nobody is known to have made the call %s of task %s", ref.Step, ref.Task)
}

// requester is who submitted the task. A sub-plan acts for whoever submitted the first of its parents; "" when that
// one is not at hand, which only earlier versions did not write down. The lock is held.
func (en *engine) requester(e *entry) string {
	for range maxParents {
		parent := e.task.Submitted.Parent
		switch {
		case parent == nil:
			return e.task.Requestor
		case parent.Requester != "":
			return parent.Requester
		}
		if e = en.tasks[parent.Task]; e == nil || e.task == nil || e.task.Submitted == nil {
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

// requeueCall queues a call again that its worker has never seen. The lock is held.
func (en *engine) requeueCall(worker string, ref work.Ref) {
	e := en.tasks[ref.Task]
	if e == nil || e.task == nil {
		return
	}
	l, s := e.calls.Leases[ref.Step], e.task.Steps[ref.Step]
	if l == nil || l.Worker != worker || l.Attempt != ref.Attempt || l.Called {
		return // it was seen, or the lease has expired meanwhile
	}
	en.queue.drop(e, ref.Step)
	if s != nil && s.State == statemachine.StepReady && !en.queue.stays(e, s) {
		en.queue.queueCall(e, s)
	}
}

// drop ends the lease of a step whose call is over. The lock is held.
func (cq *callQueue) drop(e *entry, step string) {
	delete(e.progress, step)
	cq.dispatcher.EndLease(&e.calls, step)
}

// reviveLeases takes up the calls that workers are known to have begun, and ends those that the log
// says are over.
func (cq *callQueue) reviveLeases(e *entry) {
	for _, step := range sortedKeys(e.calls.Leases) {
		if !fitsLease(e.task.Steps[step], e.calls.Leases[step]) {
			cq.revoke(e, step)
		}
	}
	for _, key := range e.task.Order {
		if s := e.task.Steps[key]; s.Executing() && e.calls.Leases[key] == nil {
			l := &dispatch.Lease{Ref: work.Ref{Task: e.id, Step: key, Attempt: s.Attempt}, Worker: s.Worker, Tool: s.Tool, Called: true}
			cq.grant(e, l)
			l.LastHeartbeat = time.Time{}
		}
	}
}

// fitsLease reports whether a step is as its lease says: one that has begun is in the hands of the worker that
// has begun it.
func fitsLease(s *statemachine.Step, l *dispatch.Lease) bool {
	if s == nil || s.Attempt != l.Attempt {
		return false
	}
	return s.State == statemachine.StepReady || (s.Executing() && s.Worker == l.Worker)
}

func (cq *callQueue) queueReady(e *entry) {
	for _, key := range e.task.Order {
		if s := e.task.Steps[key]; s.State == statemachine.StepReady && e.calls.Leases[key] == nil && !cq.stays(e, s) {
			cq.queueCall(e, s)
		}
	}
	cq.dispatcher.Dispatch()
}

// revoke ends the lease of a step and tells its worker to stop the call. The lock is held.
func (cq *callQueue) revoke(e *entry, step string) {
	l := e.calls.Leases[step]
	if l == nil {
		return
	}
	cq.dispatcher.Cancel(l.Worker, l.Ref)
	cq.drop(e, step)
}

// startWithin is how long a call that is queued now may wait to be taken; 0 for ever. One that has begun something elsewhere
// is never given up by that, and one from before the restart not before its worker had time to speak of it.
func (cq *callQueue) startWithin(e *entry, s *statemachine.Step) time.Duration {
	n := e.nodeOf(s.Key)
	switch {
	case n == nil || n.StartWithin <= 0 || s.Noted():
		return 0
	case !s.Since.After(cq.started):
		return max(time.Duration(n.StartWithin), cq.leaseOf(e, s.Key))
	default:
		return time.Duration(n.StartWithin)
	}
}

// startBy is until when somebody has to take a queued call; zero for ever, and while nobody may take it.
func (cq *callQueue) startBy(q *dispatch.Queued) time.Time {
	if q == nil || q.MaxWait == 0 || cq.holds.held(holdNode, "") || cq.holds.lanePaused(q.Lane) {
		return time.Time{}
	}
	return q.Since.Add(q.MaxWait)
}

// setTimer sets the timer of an open task to the next time that its history names, after a time up to
// which everything that was due has been decided about. A time that has passed meanwhile wakes the task
// at once. The lock is held.
func (cq *callQueue) setTimer(e *entry, decided time.Time) {
	sub := e.task.Submitted
	for _, at := range []*time.Time{sub.NotBefore, sub.Deadline} {
		if at != nil && at.After(decided) {
			cq.timers.set(*at, e.id)
		}
	}
	for _, a := range e.task.Approvals {
		for _, at := range []*time.Time{&a.ExpiresAt, a.RemindAt} {
			if a.Status == statemachine.ApprovalPending && at != nil && at.After(decided) {
				cq.timers.set(*at, e.id)
			}
		}
	}
	for _, q := range e.task.Questions {
		if q.Status == statemachine.QuestionOpen && q.ExpiresAt.After(decided) {
			cq.timers.set(q.ExpiresAt, e.id)
		}
	}
	for _, s := range e.task.Steps {
		if s.Due.After(decided) && !s.State.Over() {
			cq.timers.set(s.Due, e.id)
		}
	}
}

// queueStep queues a call that a commit made ready, unless a later event of the commit took it back, or an
// earlier one, such as the end of a pause, has handed it out already.
func (cq *callQueue) queueStep(e *entry, d *events.Ready) {
	s := e.task.Steps[d.Step]
	if s.State == statemachine.StepReady && s.Attempt == d.Attempt && e.calls.Leases[d.Step] == nil && !cq.stays(e, s) {
		cq.queueCall(e, s)
	}
}

// queueCall queues a ready call, and wakes its task when nobody has taken it in time. One that is queued already goes on
// waiting.
func (cq *callQueue) queueCall(e *entry, s *statemachine.Step) {
	old := e.calls.Queued[s.Key]
	q := cq.dispatcher.Enqueue(&e.calls, s.Key, s.Attempt, laneOf(e.task, s), e.task.Submitted.Priority, e.task.CreatedAt)
	q.Since, q.MaxWait = cq.now(), cq.startWithin(e, s)
	if old != nil && old.Attempt == s.Attempt {
		q.Since = old.Since
	}
	if q.MaxWait > 0 {
		cq.timers.set(q.Since.Add(q.MaxWait), e.id)
	}
}

// moved takes the calls out of the queues that have to stay while an approval is awaited, and brings them
// back.
func (cq *callQueue) moved(e *entry, kind events.Kind) {
	switch kind {
	case events.TaskApprovalRequested:
		cq.dispatcher.RemoveAll(&e.calls)
		cq.queueReady(e)
	case events.TaskApproved, events.TaskDeclined, events.TaskRevised, events.TaskExpired:
		cq.queueReady(e)
	default: // changes nothing for the calls
	}
}

// called notes in the lease that the log knows of the call. The lock is held.
func (cq *callQueue) called(e *entry, d *events.Called) {
	cq.dispatcher.Remove(&e.calls, d.Step)
	s := e.task.Steps[d.Step]
	if !s.Executing() {
		return // its result, or the child that it asks for, came in the same commit
	}
	if e.calls.Leases[d.Step] == nil {
		cq.grant(e, &dispatch.Lease{Ref: work.Ref{Task: e.id, Step: d.Step, Attempt: d.Attempt}, Worker: d.Worker, Tool: s.Tool})
	}
	e.calls.Leases[d.Step].Called = true
}
