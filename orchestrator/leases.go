package orchestrator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// This file holds the end of leases: calls whose workers are not heard any more are lost.

// sweep gives up calls whose workers have stopped their heartbeat, and forgets silent workers.
func (o *Orchestrator) sweep(ctx context.Context) {
	tick := time.NewTicker(max(o.cfg.Lease/5, 20*time.Millisecond))
	defer tick.Stop()
	for last := o.now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.lock()
			now := o.now()
			if stall := now.Sub(last); stall > o.cfg.Lease/2 {
				o.forgive(stall)
			}
			o.expire(now)
			last = now
			o.unlock()
		}
	}
}

// forgive extends all leases by a time in which this node itself stood still and could hear nobody.
// The lock is held.
func (o *Orchestrator) forgive(stall time.Duration) {
	for _, e := range o.tasks {
		for _, l := range e.calls.Leases {
			l.Expires = l.Expires.Add(stall)
		}
	}
}

// beginGrace gives the workers of calls that were found in the log a whole lease from now on: they could
// not be heard while it was read. One that is known to be gone gets none.
func (o *Orchestrator) beginGrace() {
	o.lock()
	defer o.unlock()
	now := o.now()
	for _, e := range o.tasks {
		for _, l := range e.calls.Leases {
			l.Expires = now.Add(l.Length)
			if slices.Contains(o.cfg.Gone, l.Worker) {
				l.Expires = now
			}
		}
	}
}

func (o *Orchestrator) expire(now time.Time) {
	for _, call := range o.expired(now) {
		if e := o.tasks[call.Task]; e != nil && e.calls.Leases[call.Step] != nil {
			o.lose(e, *e.calls.Leases[call.Step], "stopped answering")
		}
	}
	o.dispatcher.ForgetIdle(now, maxPoll+4*o.cfg.Lease)
}

// expired returns the calls whose leases are over. The lock is held.
func (o *Orchestrator) expired(now time.Time) []work.Ref {
	if o.dispatcher.Running() == 0 {
		return nil
	}
	return o.callsOf(func(l *dispatch.Lease) bool { return now.After(l.Expires) })
}

// GiveUp gives up the calls of a worker that is heard of no more from now on, such as an agent that was removed: nobody
// waits for the ends of their leases. UNAVAILABLE when the node is stopping.
func (o *Orchestrator) GiveUp(worker string) error {
	if err := o.serving(); err != nil {
		return err
	}
	o.lock()
	defer o.unlock()
	for _, call := range o.callsOf(func(l *dispatch.Lease) bool { return l.Worker == worker }) {
		if e := o.tasks[call.Task]; e != nil && e.calls.Leases[call.Step] != nil {
			o.lose(e, *e.calls.Leases[call.Step], "was removed")
		}
	}
	o.dispatcher.Forget(worker)
	return nil
}

// callsOf returns the calls whose leases are such, in a fixed order: the same history leads to the same decisions. The lock
// is held.
func (o *Orchestrator) callsOf(such func(*dispatch.Lease) bool) []work.Ref {
	var calls []work.Ref
	for _, e := range o.tasks {
		for _, l := range e.calls.Leases {
			if such(l) {
				calls = append(calls, l.Ref)
			}
		}
	}
	slices.SortFunc(calls, func(a, b work.Ref) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Step, b.Step))
	})
	return calls
}

// lose records that the worker of a call is lost, and what has happened to it. The lock is held.
func (o *Orchestrator) lose(e *entry, l dispatch.Lease, what string) {
	if l.Undelivered {
		o.requeueCall(l.Worker, l.Ref)
		o.dispatcher.Dispatch()
		return
	}
	o.drop(e, l.Step)
	o.turn(e.id, decide.ActorNode, func(t *decide.Turn) error {
		if !t.Holds(l.Ref, l.Worker) {
			return nil
		}
		s := t.Task.Steps[l.Step]
		lost := fault.New(fault.WorkerLost, "worker %s %s", l.Worker, what)
		t.MayRun = t.MayRunUntil(s)
		t.Attempts().Failed(s, lost, fault.ClassWorkerLost, t.Now.Sub(s.Since))
		return nil
	}, ignore)
}

// revoke ends the lease of a step and tells its worker to stop the call. The lock is held.
func (o *Orchestrator) revoke(e *entry, step string) {
	l := e.calls.Leases[step]
	if l == nil {
		return
	}
	o.dispatcher.Cancel(l.Worker, l.Ref)
	o.drop(e, step)
}

// startWithin is how long a call that is queued now may wait to be taken; 0 for ever. One that has begun something elsewhere
// is never given up by that, and one from before the restart not before its worker had time to speak of it.
func (o *Orchestrator) startWithin(e *entry, s *statemachine.Step) time.Duration {
	n := e.nodeOf(s.Key)
	switch {
	case n == nil || n.StartWithin <= 0 || s.Noted():
		return 0
	case !s.Since.After(o.started):
		return max(time.Duration(n.StartWithin), o.leaseOf(e, s.Key))
	default:
		return time.Duration(n.StartWithin)
	}
}

// startBy is until when somebody has to take a queued call; zero for ever, and while nobody may take it.
func (o *Orchestrator) startBy(q *dispatch.Queued) time.Time {
	if q == nil || q.Within == 0 || o.held(holdNode, "") || o.lanePaused(q.Lane) {
		return time.Time{}
	}
	return q.Since.Add(q.Within)
}
