package orchestrator

import (
	"cmp"
	"context"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// callQueue queues the ready calls of tasks for workers, and removes them again.
type callQueue struct {
	*core

	pauses *pauseList
	// dispatcher assigns ready calls to workers.
	dispatcher *dispatch.Dispatcher
}

// mustWait reports whether a ready call may not be dispatched because of the state of its task.
func (cq *callQueue) mustWait(e *entry, s *statemachine.Step) bool {
	return e.paused() || cq.rules.Barred(e.task, s)
}

// take leases a queued call to a worker. mu must be held.
func (cq *callQueue) take(e *entry, q *dispatch.Queued, worker string) {
	cq.dispatcher.Take(q, &dispatch.Lease{Ref: q.Ref, Worker: worker, Tool: e.task.Steps[q.Step].Tool, TTL: cq.leaseOf(e, q.Step)})
}

// lease adds the lease of a call that a worker holds already. mu must be held.
func (cq *callQueue) lease(e *entry, l *dispatch.Lease) {
	l.TTL = cq.leaseOf(e, l.Step)
	cq.dispatcher.AddLease(&e.calls, l, cq.laneOf(e.task, e.task.Steps[l.Step]))
}

// minLease is the shortest lease. A worker has to send several heartbeats within it.
const minLease = 100 * time.Millisecond

// leaseOf returns the duration of the lease of a step: its `heartbeat` in the plan, or the default of the node.
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

// maxParents limits how far up the parents of a task are followed.
const maxParents = 64

// caller returns the identity that a call acts for: the identity that made the call inside the task, or else the submitter of
// the task. mu must be held.
func (en *engine) caller(e *entry, s *statemachine.Step) string {
	return cmp.Or(s.By, en.requester(e))
}

// CallerOf returns the identity that a running call acts for, such as agent:builder. Errors: CONFLICT if no worker holds the
// attempt any more; UNAVAILABLE if a worker may hold it again soon, as after a restart of the node; FORBIDDEN if the identity
// is not known.
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
	s, l := e.task.Steps[ref.Step], e.calls.Leases.Get(ref.Step)
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

// requester returns who submitted the task; for a child task, who submitted its topmost parent. Histories of earlier versions
// do not record the latter: for them, requester looks for the parents in memory, and returns "" without success. mu must be
// held.
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

// sinceOf returns when the task, or its topmost parent, was submitted.
func sinceOf(e *entry) time.Time {
	if parent := e.task.Submitted.Parent; parent != nil && !parent.Since.IsZero() {
		return parent.Since
	}
	return e.task.CreatedAt
}

// requeueCall returns a leased call that its worker never received to its queue. mu must be held.
func (en *engine) requeueCall(worker string, ref work.Ref) {
	e := en.tasks[ref.Task]
	if e == nil || e.task == nil {
		return
	}
	l, s := e.calls.Leases.Get(ref.Step), e.task.Steps[ref.Step]
	if l == nil || l.Worker != worker || l.Attempt != ref.Attempt || l.Called {
		return // the worker has received the call, or the lease has expired
	}
	en.queue.endLease(e, ref.Step)
	if s != nil && s.State == statemachine.StepReady && !en.queue.mustWait(e, s) {
		en.queue.queueCall(e, s)
	}
}

// endLease ends the lease of a step whose call has ended. mu must be held.
func (cq *callQueue) endLease(e *entry, step string) {
	delete(e.progress, step)
	cq.dispatcher.EndLease(&e.calls, step)
}

// reviveLeases restores the leases of calls that workers have started according to the log, and ends the leases of calls that
// have ended.
func (cq *callQueue) reviveLeases(e *entry) {
	for _, step := range e.calls.Leases.Steps() {
		if !matchesLease(e.task.Steps[step], e.calls.Leases.Get(step)) {
			cq.revoke(e, step)
		}
	}
	for _, s := range e.task.Live() {
		if s.Executing() && e.calls.Leases.Get(s.Key) == nil {
			l := &dispatch.Lease{Ref: work.Ref{Task: e.id, Step: s.Key, Attempt: s.Attempt}, Worker: s.Worker, Tool: s.Tool, Called: true}
			cq.lease(e, l)
			l.LastHeartbeat = time.Time{}
		}
	}
}

// matchesLease reports whether the state of a step matches its lease: a started call is leased to the worker that started it.
func matchesLease(s *statemachine.Step, l *dispatch.Lease) bool {
	if s == nil || s.Attempt != l.Attempt {
		return false
	}
	return s.State == statemachine.StepReady || (s.Executing() && s.Worker == l.Worker)
}

// queueReady queues all ready calls of a task that may be dispatched. mu must be held.
func (cq *callQueue) queueReady(e *entry) {
	for _, s := range e.task.In(statemachine.StepReady) {
		if e.calls.Leases.Get(s.Key) == nil && !cq.mustWait(e, s) {
			cq.queueCall(e, s)
		}
	}
	cq.dispatcher.Dispatch()
}

// revoke ends the lease of a step and cancels the call at its worker. mu must be held.
func (cq *callQueue) revoke(e *entry, step string) {
	l := e.calls.Leases.Get(step)
	if l == nil {
		return
	}
	cq.dispatcher.Cancel(l.Worker, l.Ref)
	cq.endLease(e, step)
}

// startWithin returns how long a call that is queued now may wait for a worker; 0 for no limit. A call that continues work
// outside the worker has no limit. After a restart the limit is at least one lease, so that a worker that already runs the call
// can report it.
func (cq *callQueue) startWithin(e *entry, s *statemachine.Step) time.Duration {
	n := e.nodeOf(s.Key)
	switch {
	case n == nil || n.StartWithin <= 0 || s.RunsElsewhere():
		return 0
	case !s.Since.After(cq.started):
		return max(time.Duration(n.StartWithin), cq.leaseOf(e, s.Key))
	default:
		return time.Duration(n.StartWithin)
	}
}

// startBy returns the deadline by which a worker must take a queued call. It is zero without a limit, and while the call is
// paused.
func (cq *callQueue) startBy(q *dispatch.Queued) time.Time {
	if q == nil || q.MaxWait == 0 || cq.pauses.paused(pauseNode, "") || cq.pauses.lanePaused(q.Lane()) {
		return time.Time{}
	}
	return q.Since.Add(q.MaxWait)
}

// setTimer sets the timer of an open task to its next deadline after decided. Deadlines up to decided have been handled. A
// deadline that has passed meanwhile wakes the task at once. mu must be held.
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
	for _, s := range e.task.Live() {
		if s.Due.After(decided) {
			cq.timers.set(s.Due, e.id)
		}
	}
}

// queueStep queues a call that an event of a commit made ready. It does nothing if a later event of the commit withdrew the
// call. If an earlier event, such as a resume, has queued the call already, the call keeps its position.
func (cq *callQueue) queueStep(e *entry, d *events.Ready) {
	s := e.task.Steps[d.Step]
	if s.State == statemachine.StepReady && s.Attempt == d.Attempt && e.calls.Leases.Get(d.Step) == nil && !cq.mustWait(e, s) {
		cq.queueCall(e, s)
	}
}

// queueCall queues a ready call, and sets a timer for its start deadline. A call that is queued already keeps its position.
func (cq *callQueue) queueCall(e *entry, s *statemachine.Step) {
	old := e.calls.Queued.Get(s.Key)
	q := cq.dispatcher.Enqueue(&e.calls, s.Key, s.Attempt, cq.laneOf(e.task, s), e.task.Submitted.Priority, e.task.CreatedAt)
	q.Since, q.MaxWait = cq.now(), cq.startWithin(e, s)
	if old != nil && old.Attempt == s.Attempt {
		q.Since = old.Since
	}
	if q.MaxWait > 0 {
		cq.timers.set(q.Since.Add(q.MaxWait), e.id)
	}
}

// taskMoved updates the queues after an event of the task: a requested approval removes the calls that must wait for it, and a
// decision about it queues them again.
func (cq *callQueue) taskMoved(e *entry, kind events.Kind) {
	switch kind {
	case events.TaskApprovalRequested:
		cq.dispatcher.RemoveAll(&e.calls)
		cq.queueReady(e)
	case events.TaskApproved, events.TaskDeclined, events.TaskRevised, events.TaskExpired:
		cq.queueReady(e)
	default: // the event does not affect calls
	}
}

// markStarted marks in the lease that the log records the start of the call. mu must be held.
func (cq *callQueue) markStarted(e *entry, d *events.Called) {
	cq.dispatcher.Remove(&e.calls, d.Step)
	s := e.task.Steps[d.Step]
	if !s.Executing() {
		return // its result, or its child, is in the same commit
	}
	if e.calls.Leases.Get(d.Step) == nil {
		cq.lease(e, &dispatch.Lease{Ref: work.Ref{Task: e.id, Step: d.Step, Attempt: d.Attempt}, Worker: d.Worker, Tool: s.Tool})
	}
	e.calls.Leases.Get(d.Step).Called = true
}
