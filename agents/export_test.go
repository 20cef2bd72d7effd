package agents

// Known returns how many agents a dispatcher and its registry have state of.
func (d *Dispatcher) Known() (assigned, instances, presences int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.registry.mu.Lock()
	defer d.registry.mu.Unlock()
	return len(d.assigned), len(d.instances), len(d.registry.presences)
}
