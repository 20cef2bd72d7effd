package crash

import (
	"time"

	"github.com/orch-dev/orch/events"
)

// Schedule is what a node says of a schedule that fires at regular intervals, drops no firing, and was paused in the end.
type Schedule struct {
	Name  string
	Every time.Duration
	// Started is the number of tasks that it has started, Since is when it was created.
	Started int
	Since   time.Time
}

// fired records the firing that has submitted a task, and checks that no other task has the same (I21).
func (h *history) fired(d *events.Submitted) {
	f := d.Schedule
	if f == nil || d.RetryOf != "" || d.ForkOf != "" {
		return
	}
	if h.firings[f.Name] == nil {
		h.firings[f.Name] = map[time.Time]events.TaskID{}
	}
	if other, taken := h.firings[f.Name][f.Time.UTC()]; taken {
		h.violate("I21", "the schedule %s had started %s at %s", f.Name, other, f.Time)
	}
	h.firings[f.Name][f.Time.UTC()] = h.task
}

// checkFirings checks that schedules have left out no instant, and know what they have started (I21).
func (c *checker) checkFirings() {
	for _, s := range c.evidence.Schedules {
		started := c.firings[s.Name]
		if len(started) != s.Started {
			c.violate("I21", "", "the schedule %s has started %d tasks, and the log has %d", s.Name, s.Started, len(started))
		}
		at := s.Since.UTC().Truncate(s.Every)
		for range started { // as many instants as there are tasks, from the first on
			if at = at.Add(s.Every); started[at] == "" {
				c.violate("I21", "", "the schedule %s has started no task at %s", s.Name, at)
			}
		}
	}
}
