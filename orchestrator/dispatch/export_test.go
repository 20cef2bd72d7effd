package dispatch

// Counts returns how many counts of limits there are.
func (d *Dispatcher) Counts() int { return len(d.limits.counts) }
