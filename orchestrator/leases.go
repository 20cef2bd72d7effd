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

// This file ends leases. A call is lost when its worker stops sending heartbeats.

// sweep ends expired leases and forgets idle workers, until ctx ends.
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
				ws.extendLeases(stall)
			}
			ws.expire(now)
			last = now
			ws.unlock()
		}
	}
}

// extendLeases extends all leases by the time that this node was stalled and could not receive heartbeats. mu must be held.
func (ws *workSource) extendLeases(stall time.Duration) {
	for _, e := range ws.engine.tasks {
		for l := range e.calls.Leases.All() {
			l.Expires = l.Expires.Add(stall)
		}
	}
}

// startGrace renews the leases of all calls in the log, because their workers could not send heartbeats while the log was read.
// The leases of workers that have certainly ended (Config.Gone) expire at once.
func (ws *workSource) startGrace() {
	ws.lock()
	defer ws.unlock()
	now := ws.now()
	for _, e := range ws.engine.tasks {
		for l := range e.calls.Leases.All() {
			l.Expires = now.Add(l.TTL)
			if slices.Contains(ws.cfg.Gone, l.Worker) {
				l.Expires = now
			}
		}
	}
}

func (ws *workSource) expire(now time.Time) {
	for _, call := range ws.expired(now) {
		if e := ws.engine.tasks[call.Task]; e != nil && e.calls.Leases.Get(call.Step) != nil {
			ws.recordLost(e, *e.calls.Leases.Get(call.Step), "stopped answering")
		}
	}
	ws.queue.dispatcher.ForgetIdle(now, maxPoll+4*ws.cfg.Limits.Lease)
}

// expired returns the calls whose leases have expired. mu must be held.
func (ws *workSource) expired(now time.Time) []work.Ref {
	if ws.queue.dispatcher.Running() == 0 {
		return nil
	}
	return ws.leasedCalls(func(l *dispatch.Lease) bool { return now.After(l.Expires) })
}

// GiveUp ends the leases of a worker at once, without waiting for their expiry. It is for a worker that will send no heartbeat,
// such as an agent that was removed. It returns UNAVAILABLE while the node is stopping.
func (ws *workSource) GiveUp(worker string) error {
	if err := ws.serving(); err != nil {
		return err
	}
	ws.lock()
	defer ws.unlock()
	for _, call := range ws.leasedCalls(func(l *dispatch.Lease) bool { return l.Worker == worker }) {
		if e := ws.engine.tasks[call.Task]; e != nil && e.calls.Leases.Get(call.Step) != nil {
			ws.recordLost(e, *e.calls.Leases.Get(call.Step), "was removed")
		}
	}
	ws.queue.dispatcher.Forget(worker)
	return nil
}

// leasedCalls returns the calls with a lease that selected accepts, in a fixed order, so that the same history leads to the
// same decisions. mu must be held.
func (ws *workSource) leasedCalls(selected func(*dispatch.Lease) bool) []work.Ref {
	var calls []work.Ref
	for _, e := range ws.engine.tasks {
		for l := range e.calls.Leases.All() {
			if selected(l) {
				calls = append(calls, l.Ref)
			}
		}
	}
	slices.SortFunc(calls, func(a, b work.Ref) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Step, b.Step))
	})
	return calls
}

// recordLost ends the lease of a call and records the loss of its worker. what completes the message "worker NAME …". A
// call that was not delivered returns to its queue instead. mu must be held.
func (ws *workSource) recordLost(e *entry, l dispatch.Lease, what string) {
	if l.Undelivered {
		ws.engine.requeueCall(l.Worker, l.Ref)
		ws.queue.dispatcher.Dispatch()
		return
	}
	ws.queue.endLease(e, l.Step)
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
