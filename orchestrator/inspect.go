package orchestrator

import (
	"cmp"
	"maps"
	"slices"
)

// Leftovers returns the sizes of the tables in memory that are empty when every task is over and no
// worker waits: what is left then has leaked.
func (o *Orchestrator) Leftovers() map[string]int {
	o.lock()
	defer o.unlock()
	o.timers.mu.Lock()
	defer o.timers.mu.Unlock()
	return map[string]int{
		"waits": len(o.waits), "delegated": len(o.delegated), "named": len(o.named), "keys": len(o.keys), "alarms": len(o.timers.queue), "alarms by task": len(o.timers.byTask),
		"lanes": len(o.match.lanes), "loads": len(o.match.loads) - len(o.match.workers), "unread": len(o.unread), "running": o.match.running,
		"counted": o.quota.open, "requestors": len(o.quota.each), "steps": o.quota.steps, "requestors with steps": len(o.quota.stepsEach),
	}
}

// sortedKeys returns the keys of a map in order: the same history leads to the same decisions.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}
