package orchestrator

// Held returns the number of tasks that are whole in memory.
func (o *Orchestrator) Held() int {
	o.lock()
	defer o.unlock()
	return len(o.tasks)
}

// Leftovers returns the sizes of the maps that must be empty when every task is over.
func (o *Orchestrator) Leftovers() map[string]int {
	o.lock()
	defer o.unlock()
	o.alarms.mu.Lock()
	defer o.alarms.mu.Unlock()
	return map[string]int{
		"waits": len(o.waits), "keys": len(o.keys), "alarms": len(o.alarms.queue), "alarms by task": len(o.alarms.byTask),
		"lanes": len(o.match.lanes), "unread": len(o.unread), "running": o.match.running,
		"counted": o.quota.open, "requestors": len(o.quota.each),
	}
}

// Pollers returns the number of workers that wait for work.
func (o *Orchestrator) Pollers() int {
	o.lock()
	defer o.unlock()
	return len(o.match.pollers)
}
