package crash

// checkAttempts checks that the verify tool has prevented (I6): two concurrent attempts of a write, and a write that
// happened twice. An attempt that has an effect after a later attempt has started was concurrent with the later
// attempt.
func (h *history) checkAttempts() {
	for key, s := range h.steps {
		if s.tool != ToolVerified {
			continue
		}
		if n := h.count(End, key); n > 1 {
			h.violate("I6", "step %s happened %d times", key, n)
		}
		h.checkAlone(key)
	}
}

// checkAlone checks that no attempt of a step ran concurrently with a later attempt. It reports each attempt at most
// once.
func (h *history) checkAlone(key string) {
	reported := map[int]bool{}
	for _, later := range h.effects[h.task] {
		if later.Phase != Begin || later.Step != key {
			continue
		}
		for _, e := range h.effects[h.task] {
			if e.Step == key && e.Attempt < later.Attempt && e.At.After(later.At) && !reported[e.Attempt] {
				reported[e.Attempt] = true
				h.violate("I6", "attempt %d of step %s was at work %s after attempt %d had begun", e.Attempt, key, e.At.Sub(later.At), later.Attempt)
			}
		}
	}
}
