package agents

// Known counts what a desk and its registry remember of agents.
func (d *Desk) Known() (given, speaking, heard int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.registry.mu.Lock()
	defer d.registry.mu.Unlock()
	return len(d.given), len(d.speaking), len(d.registry.heard)
}
