package crash

import (
	"fmt"
	"time"

	"github.com/orch-dev/orch/events"
)

// Delivery is a delivery that the receiver of a destination has accepted, as it came.
type Delivery struct {
	// ID is the id that its sender gave it.
	ID   string
	Type string
	Task events.TaskID
	Rev  uint64
}

// Destination is what the receiver of a destination has seen that hears of the ends of tasks.
type Destination struct {
	// Since is when it was created. What tasks did that came before may be missing.
	Since time.Time
	// Accepted are the deliveries in their order.
	Accepted []Delivery
}

// endTypes maps the ends of tasks to the types of their deliveries.
func endTypes() map[events.Kind]string {
	return map[events.Kind]string{
		events.TaskFinished: "task.completed", events.TaskFinalized: "task.completed",
		events.TaskFailed: "task.failed", events.TaskRejected: "task.failed", events.TaskCancelled: "task.cancelled",
	}
}

// place names an event in a text.
func place(typ string, task events.TaskID, rev uint64) string {
	return fmt.Sprintf("%s of %s at %d", typ, task, rev)
}

// endedAt records the end of a task of which the destination has to hear (I22).
func (h *history) endedAt(c placed, kind events.Kind) {
	if typ := endTypes()[kind]; typ != "" && !h.part {
		h.endings[place(typ, h.task, c.Rev)] = h.since
	}
}

// checkDeliveries checks that the receiver has heard of every end, and of nothing else, each with one id (I22).
func (c *checker) checkDeliveries() {
	d := c.evidence.Destination
	if d == nil {
		return
	}
	ids, heard := map[string]string{}, map[string]string{}
	for _, a := range d.Accepted {
		at := place(a.Type, a.Task, a.Rev)
		if _, there := c.endings[at]; !there {
			c.violate("I22", a.Task, "the delivery %s is about %s, which is not in the log", a.ID, at)
		}
		if other, known := ids[a.ID]; known && other != at {
			c.violate("I22", a.Task, "the delivery %s is about %s and about %s", a.ID, other, at)
		}
		if other, known := heard[at]; known && other != a.ID {
			c.violate("I22", a.Task, "%s was delivered as %s and as %s", at, other, a.ID)
		}
		ids[a.ID], heard[at] = at, a.ID
	}
	for at, since := range c.endings {
		if heard[at] == "" && since.After(d.Since) {
			c.violate("I22", "", "the receiver has not heard of %s", at)
		}
	}
}
