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
	left := map[string]int{
		"waits": len(o.waits), "delegated": len(o.delegated), "named": len(o.named), "keys": len(o.keys), "alarms": len(o.timers.queue), "alarms by task": len(o.timers.byTask),
		"unread":  len(o.unread),
		"counted": o.quota.open, "requestors": len(o.quota.each), "steps": o.quota.steps, "requestors with steps": len(o.quota.stepsEach),
	}
	maps.Copy(left, o.dispatcher.Leftovers())
	return left
}

// sortedKeys returns the keys of a map in order: the same history leads to the same decisions.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}
