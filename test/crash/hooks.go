package crash

import "github.com/orch-dev/orch/events"

// delivered records the delivery to a hook that has submitted a task, and checks that no other task has the same (I23).
func (h *history) delivered(d *events.Submitted) {
	of := d.Hook
	if of == nil || d.RetryOf != "" || d.ForkOf != "" || d.Parent != nil {
		return
	}
	if other, taken := h.deliveries[of.ID]; taken {
		h.violate("I23", "the delivery %s had started %s", of.ID, other)
	}
	h.deliveries[of.ID] = h.task
}

// checkHooks checks that each acknowledged delivery has started a task (I23).
func (c *checker) checkHooks() {
	for _, id := range c.evidence.HookDeliveries {
		if c.deliveries[id] == "" {
			c.violate("I23", "", "the delivery %s was acknowledged, and has started no task", id)
		}
	}
}
