package orchestrator

// Held returns the number of tasks that are whole in memory.
func (o *Orchestrator) Held() int {
	o.lock()
	defer o.unlock()
	return len(o.tasks)
}

// Pollers returns the number of workers that wait for work.
func (o *Orchestrator) Pollers() int {
	o.lock()
	defer o.unlock()
	return len(o.match.pollers.byWorker)
}
