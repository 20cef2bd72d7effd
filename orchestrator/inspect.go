package orchestrator

import (
	"maps"
)

// Leftovers returns the sizes of the tables in memory that must be empty when every task has ended and no worker waits. Entries
// that remain then are leaks.
func (rd *reader) Leftovers() map[string]int {
	rd.lock()
	defer rd.unlock()
	rd.timers.mu.Lock()
	defer rd.timers.mu.Unlock()
	pending := 0
	if rd.timers.byTask[limitsTimer] != nil {
		pending = 1 // it may come when nobody waits any more
	}
	left := map[string]int{
		"waits": len(rd.engine.links.waits), "delegated": len(rd.engine.links.delegated), "named": len(rd.engine.links.named), "keys": len(rd.engine.concurrencyKeys.keys), "alarms": len(rd.timers.queue) - pending, "alarms by task": len(rd.timers.byTask) - pending,
		"unread":  len(rd.engine.concurrencyKeys.unread),
		"counted": rd.quota.open, "requestors": len(rd.quota.each), "steps": rd.quota.steps, "requestors with steps": len(rd.quota.stepsEach),
	}
	maps.Copy(left, rd.engine.queue.dispatcher.Leftovers())
	return left
}
