package orchestrator

import (
	"time"
)

// The functions in this file are for callers that move the Clock of an orchestrator by hand, to test plans.

// Quiet reports whether everything that can be decided without workers, people and time is decided and durable.
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

// NextTimer returns when the next timer is due; false if there is none.
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
