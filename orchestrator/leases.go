package orchestrator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/work"
)

// This file holds the end of leases: calls whose workers are not heard any more are lost.

// sweep gives up calls whose workers have stopped their heartbeat, and forgets silent workers.
func (ws *workSource) sweep(ctx context.Context) {
	tick := time.NewTicker(max(ws.cfg.Limits.Lease/5, 20*time.Millisecond))
	defer tick.Stop()
	for last := ws.now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			ws.lock()
			now := ws.now()
			if stall := now.Sub(last); stall > ws.cfg.Limits.Lease/2 {
				ws.forgive(stall)
			}
			ws.expire(now)
			last = now
			ws.unlock()
		}
	}
}

// forgive extends all leases by a time in which this node itself stood still and could hear nobody.
// The lock is held.
func (ws *workSource) forgive(stall time.Duration) {
	for _, e := range ws.engine.tasks {
		for _, l := range e.calls.Leases {
			l.Expires = l.Expires.Add(stall)
		}
	}
}

// beginGrace gives the workers of calls that were found in the log a whole lease from now on: they could
// not be heard while it was read. One that is known to be gone gets none.
func (ws *workSource) beginGrace() {
	ws.lock()
	defer ws.unlock()
	now := ws.now()
	for _, e := range ws.engine.tasks {
		for _, l := range e.calls.Leases {
			l.Expires = now.Add(l.TTL)
			if slices.Contains(ws.cfg.Gone, l.Worker) {
				l.Expires = now
			}
		}
	}
}

func (ws *workSource) expire(now time.Time) {
	for _, call := range ws.expired(now) {
		if e := ws.engine.tasks[call.Task]; e != nil && e.calls.Leases[call.Step] != nil {
			ws.lose(e, *e.calls.Leases[call.Step], "stopped answering")
		}
	}
	ws.queue.dispatcher.ForgetIdle(now, maxPoll+4*ws.cfg.Limits.Lease)
}

// expired returns the calls whose leases are over. The lock is held.
func (ws *workSource) expired(now time.Time) []work.Ref {
	if ws.queue.dispatcher.Running() == 0 {
		return nil
	}
	return ws.callsOf(func(l *dispatch.Lease) bool { return now.After(l.Expires) })
}

// GiveUp gives up the calls of a worker that is heard of no more from now on, such as an agent that was removed: nobody
// waits for the ends of their leases. UNAVAILABLE when the node is stopping.
func (ws *workSource) GiveUp(worker string) error {
	if err := ws.serving(); err != nil {
		return err
	}
	ws.lock()
	defer ws.unlock()
	for _, call := range ws.callsOf(func(l *dispatch.Lease) bool { return l.Worker == worker }) {
		if e := ws.engine.tasks[call.Task]; e != nil && e.calls.Leases[call.Step] != nil {
			ws.lose(e, *e.calls.Leases[call.Step], "was removed")
		}
	}
	ws.queue.dispatcher.Forget(worker)
	return nil
}

// callsOf returns the calls whose leases are such, in a fixed order: the same history leads to the same decisions. The lock
// is held.
func (ws *workSource) callsOf(such func(*dispatch.Lease) bool) []work.Ref {
	var calls []work.Ref
	for _, e := range ws.engine.tasks {
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
func (ws *workSource) lose(e *entry, l dispatch.Lease, what string) {
	if l.Undelivered {
		ws.engine.requeueCall(l.Worker, l.Ref)
		ws.queue.dispatcher.Dispatch()
		return
	}
	ws.queue.drop(e, l.Step)
	ws.engine.turn(e.id, decide.ActorNode, func(t *decide.Turn) error {
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
