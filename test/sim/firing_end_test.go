package sim_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/schedules"
	"github.com/orch-dev/orch/statemachine"
)

// finish checks what is true of a schedule once everything has ended.
func (c *course) finish() {
	if len(c.waiting) > 0 && !c.deleted {
		c.w.fail("F1: %d firings of %s wait for ever", len(c.waiting), c.name)
	}
	for _, s := range c.spans {
		c.checkSpan(s)
	}
	started := map[string]bool{}
	for _, d := range c.order {
		c.checkDecision(d)
		if d.result == string(schedules.Started) || d.result == "" || c.w.strayed && d.result == string(schedules.Failed) {
			started[instant(d.At, d.Origin == string(schedules.Trigger))] = true
		}
	}
	for _, at := range slices.Sorted(maps.Keys(c.tasks)) {
		if !started[at] {
			c.w.fail("F1: the task %s of %s at %s was not started by its schedule", c.tasks[at].id, c.name, at)
		}
	}
	c.checkOverlap()
	c.checkReplaced()
}

// checkSpan checks that every instant is decided, in time.
func (c *course) checkSpan(s span) {
	end := s.end
	if end.IsZero() {
		end = time.Now()
	}
	for _, calm := range c.w.spells(s.begin, end) {
		due := calm.from.Add(calm.skew) // what is due then is decided when the time is over
		for at := range instants(s.definition, s.after, calm.to.Add(calm.skew).Add(-calmTime-s.definition.Jitter.Std())) {
			d := c.decisions[fired{At: at}.key()]
			switch {
			case d == nil || d.at.After(calm.to):
				c.w.fail("F1: %s has not decided about %s, which is due at %s until %s", c.name, at, calm.from, calm.to)
				return
			case d.result == string(schedules.Missed) && d.at.After(calm.from) && latest(at.Add(s.definition.Jitter.Std()), due).Add(calmTime).Before(at.Add(s.definition.CatchUpWindow())):
				c.w.fail("F3: %s misses %s, though all is well from %s to %s", c.name, at, calm.from, calm.to)
				return
			}
		}
	}
}

// calmTime is how long a scheduler may take to decide what is due.
const calmTime = calm

// spells returns the times between two moments in which all was well for long enough.
func (w *world) spells(begin, end time.Time) []spell {
	var list []spell
	for _, s := range w.clockwork.spells {
		s.from = latest(s.from, begin)
		if s.to.After(end) {
			s.to = end
		}
		if s.to.Sub(s.from) >= calmTime {
			list = append(list, s)
		}
	}
	return list
}

// startTime is how long a firing may take to start while all is well.
const startTime = 20 * time.Second

// wasCalm reports whether all was well for a time between two moments.
func (w *world) wasCalm(begin, end time.Time, long time.Duration) bool {
	return slices.ContainsFunc(w.spells(begin, end), func(s spell) bool { return s.to.Sub(s.from) >= long })
}

// checkDecision checks what became of a firing.
func (c *course) checkDecision(d *decision) {
	h := c.tasks[instant(d.At, d.Origin == string(schedules.Trigger))]
	switch d.result {
	case string(schedules.Started):
		if h == nil {
			c.w.fail("F1: the firing %s of %s has started no task", d.key(), c.name)
		}
	case string(schedules.Failed):
		if !strings.HasPrefix(d.Reason, "CONFLICT: ") {
			c.w.fail("F1: the firing %s of %s has failed: %s", d.key(), c.name, d.Reason)
		}
	default: // it was not to start, or its schedule is deleted
	}
	if !d.starting.IsZero() && !d.over.IsZero() && c.w.wasCalm(d.starting, d.over, startTime) {
		c.w.fail("F1: the firing %s of %s has started late", d.key(), c.name)
	}
}

// checkOverlap checks that the tasks of a schedule that permits none beside another one run one after the other.
func (c *course) checkOverlap() {
	var alone, beside []*history // a task may be that of several firings
	for _, d := range c.order {
		if h := c.tasks[instant(d.At, d.Origin == string(schedules.Trigger))]; h == nil {
			continue
		} else if c.policy(d.fired) == schedules.AllowAll {
			beside = append(beside, h)
		} else if !slices.Contains(alone, h) {
			alone = append(alone, h)
		}
	}
	alone = slices.DeleteFunc(alone, func(h *history) bool { return slices.Contains(beside, h) })
	slices.SortFunc(alone, func(a, b *history) int { return int(a.seqs[0]) - int(b.seqs[0]) })
	for i := 1; i < len(alone); i++ {
		if before := alone[i-1]; before.over() > alone[i].seqs[0] {
			c.w.fail("F4: the task %s of %s runs beside %s", alone[i].id, c.name, before.id)
		}
	}
}

// checkReplaced checks that a task that a later firing replaces is cancelled, unless it ends by itself.
func (c *course) checkReplaced() {
	for _, d := range c.order {
		if c.deleted || d.result == string(schedules.Missed) || d.at.Equal(d.starting) || c.policy(d.fired) != schedules.CancelOther {
			continue
		}
		for _, u := range c.order {
			h := c.tasks[instant(u.At, u.Origin == string(schedules.Trigger))]
			if h == nil || u.result != string(schedules.Started) || !u.over.Before(d.at) || h.cancelled() {
				continue
			}
			if died := c.w.clockwork.died[h.id]; died.After(d.at) && len(c.w.spells(d.at, died)) > 0 {
				c.w.fail("F4: the task %s of %s is not cancelled for %s", h.id, c.name, d.key())
			}
		}
	}
}

// cancelled reports whether somebody has asked for the end of a task.
func (h *history) cancelled() bool {
	return slices.ContainsFunc(h.commits, func(c *events.Commit) bool {
		return slices.ContainsFunc(c.Events, func(e events.Event) bool {
			return e.Kind == events.TaskCancelRequested || e.Kind == events.TaskCancelled
		})
	})
}

// over returns the position of the end of a task. Commits may come after it.
func (h *history) over() uint64 {
	state := statemachine.NeedsAction
	for i, c := range h.commits {
		for _, e := range c.Events {
			if next, ok := statemachine.Next(state, e.Kind); ok {
				state = next
			}
			if state.Terminal() {
				return h.seqs[i]
			}
		}
	}
	return math.MaxUint64
}

// checkSteering checks that each acknowledged request was recorded, once.
func (w *world) checkSteering(all map[string]*course) {
	for _, actor := range slices.Sorted(maps.Keys(w.clockwork.asked)) {
		s := w.clockwork.asked[actor]
		c := all[s.name]
		switch {
		case !s.acknowledged:
		case c == nil:
			w.fail("F5: %s of %s by %s is acknowledged and nowhere", s.what, s.name, actor)
		case s.what == "delete" && !c.deleted:
			w.fail("F5: %s is deleted and goes on", s.name)
		case s.what == "trigger" && c.requests[actor] != 1:
			w.fail("F5: a trigger of %s was recorded %d times", s.name, c.requests[actor])
		case s.task != "" && !slices.ContainsFunc(slices.Collect(maps.Values(c.tasks)), func(h *history) bool { return h.id == s.task }):
			w.fail("F5: the task %s of a trigger of %s does not exist", s.task, s.name)
		}
	}
}
