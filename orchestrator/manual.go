package orchestrator

import (
	"time"
)

// The functions in this file are for tests of plans, which set the Clock of an orchestrator themselves.

// Quiet reports whether the orchestrator has nothing to do before a worker, a person or a timer acts, and all its decisions are
// durable.
func (o *Orchestrator) Quiet() bool {
	o.lock()
	defer o.unlock()
	if o.jobs > 0 || o.sending || len(o.outbox) > 0 || len(o.deferred) > 0 {
		return false
	}
	for _, e := range o.tasks {
		if e.busy || e.fetching {
			return false
		}
	}
	return true
}

// NextTimer returns when the next timer is due. It returns false if there is no timer.
func (o *Orchestrator) NextTimer() (at time.Time, ok bool) {
	o.timers.mu.Lock()
	defer o.timers.mu.Unlock()
	if len(o.timers.queue) == 0 {
		return time.Time{}, false
	}
	return o.timers.queue[0].at, true
}

// WakeDue wakes the tasks whose timers are due.
func (o *Orchestrator) WakeDue() {
	o.lock()
	defer o.unlock()
	ids, _ := o.timers.due(o.cfg.Clock())
	for _, id := range ids {
		o.wake(id)
	}
}
