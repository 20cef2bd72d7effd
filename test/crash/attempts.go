package crash

// checkAttempts looks for what a verify tool must prevent (I6): two attempts of a write that are at work at the same time, and a
// write that happened twice. An attempt that does anything after a later one has begun was alive beside that.
func (h *history) checkAttempts() {
	for key, s := range h.steps {
		if s.tool != ToolVerified {
			continue
		}
		if n := h.count(End, key); n > 1 {
			h.found("I6", "step %s happened %d times", key, n)
		}
		h.checkAlone(key)
	}
}

// checkAlone checks that no attempt of a step does anything beside a later one. It tells of each attempt once.
func (h *history) checkAlone(key string) {
	told := map[int]bool{}
	for _, later := range h.effects[h.task] {
		if later.Phase != Begin || later.Step != key {
			continue
		}
		for _, e := range h.effects[h.task] {
			if e.Step == key && e.Attempt < later.Attempt && e.At.After(later.At) && !told[e.Attempt] {
				told[e.Attempt] = true
				h.found("I6", "attempt %d of step %s was at work %s after attempt %d had begun", e.Attempt, key, e.At.Sub(later.At), later.Attempt)
			}
		}
	}
}
