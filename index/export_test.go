package index

// Pending returns the number of changes that were not applied yet.
func (x *Index) Pending() int {
	x.pending.mu.Lock()
	defer x.pending.mu.Unlock()
	return len(x.pending.changes)
}

// Locked calls fn while no query runs and no change is applied.
func (x *Index) Locked(fn func()) {
	x.lock()
	defer x.mu.Unlock()
	fn()
}
