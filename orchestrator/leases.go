package orchestrator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
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
		for _, l := range e.leases {
			l.expires = l.expires.Add(stall)
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
		for _, l := range e.leases {
			l.expires = now.Add(l.length)
			if slices.Contains(o.cfg.Gone, l.worker) {
				l.expires = now
			}
		}
	}
}

func (o *Orchestrator) expire(now time.Time) {
	for _, call := range o.expired(now) {
		if e := o.tasks[call.Task]; e != nil && e.leases[call.Step] != nil {
			o.lose(e, *e.leases[call.Step], "stopped answering")
		}
	}
	for name, w := range o.match.workers {
		if now.Sub(w.seen) > maxPoll+4*o.cfg.Lease && w.leases == 0 {
			o.match.forget(name)
		}
	}
}

// expired returns the calls whose leases are over. The lock is held.
func (o *Orchestrator) expired(now time.Time) []work.Ref {
	if o.match.running == 0 {
		return nil
	}
	return o.callsOf(func(l *lease) bool { return now.After(l.expires) })
}

// GiveUp gives up the calls of a worker that is heard of no more from now on, such as an agent that was removed: nobody
// waits for the ends of their leases. UNAVAILABLE when the node is stopping.
func (o *Orchestrator) GiveUp(worker string) error {
	if err := o.serving(); err != nil {
		return err
	}
	o.lock()
	defer o.unlock()
	for _, call := range o.callsOf(func(l *lease) bool { return l.worker == worker }) {
		if e := o.tasks[call.Task]; e != nil && e.leases[call.Step] != nil {
			o.lose(e, *e.leases[call.Step], "was removed")
		}
	}
	o.match.forget(worker)
	return nil
}

// callsOf returns the calls whose leases are such, in a fixed order: the same history leads to the same decisions. The lock
// is held.
func (o *Orchestrator) callsOf(such func(*lease) bool) []work.Ref {
	var calls []work.Ref
	for id, e := range o.tasks {
		for step, l := range e.leases {
			if such(l) {
				calls = append(calls, work.Ref{Task: id, Step: step, Attempt: l.attempt})
			}
		}
	}
	slices.SortFunc(calls, func(a, b work.Ref) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Step, b.Step))
	})
	return calls
}

// lose records that the worker of a call is lost, and what has happened to it. The lock is held.
func (o *Orchestrator) lose(e *entry, l lease, what string) {
	if l.undelivered {
		o.requeueCall(l.worker, work.Ref{Task: e.id, Step: l.step, Attempt: l.attempt})
		o.dispatch()
		return
	}
	o.drop(e, l.step)
	ref := work.Ref{Task: e.id, Step: l.step, Attempt: l.attempt}
	o.turn(e.id, decide.ActorNode, func(t *decide.Turn) error {
		if !t.Holds(ref, l.worker) {
			return nil
		}
		s := t.Task.Steps[l.step]
		lost := fault.New(fault.WorkerLost, "worker %s %s", l.worker, what)
		t.MayRun = t.MayRunUntil(s)
		t.Attempts().Failed(s, lost, fault.ClassWorkerLost, t.Now.Sub(s.Since))
		return nil
	}, ignore)
}

// revoke ends the lease of a step and tells its worker to stop the call. The lock is held.
func (o *Orchestrator) revoke(e *entry, step string) {
	l := e.leases[step]
	if l == nil {
		return
	}
	if w := o.match.workers[l.worker]; w != nil {
		w.cancel = append(w.cancel, work.Ref{Task: e.id, Step: step, Attempt: l.attempt})
		o.match.told = append(o.match.told, l.worker)
	}
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
func (o *Orchestrator) startBy(q *queuedCall) time.Time {
	if q == nil || q.within == 0 || o.held(holdNode, "") || o.lanePaused(q.lane) {
		return time.Time{}
	}
	return q.since.Add(q.within)
}
