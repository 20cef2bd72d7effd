package scheduler

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/schedules"
)

// get returns a schedule, or nil.
func (s *Scheduler) get(name string) *schedule {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[name]
}

func (s *Scheduler) set(sc *schedule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[sc.Name] = sc
}

func (s *Scheduler) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
}

// setDue sets when a schedule has to be looked at again.
func (s *Scheduler) setDue(name string, at time.Time, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.all[name]
	next.due, next.idle = at, idle
	s.all[name] = &next
}

// each returns all schedules at the time of the call, in any order.
func (s *Scheduler) each() iter.Seq[*schedule] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Values(slices.Collect(maps.Values(s.all)))
}

// list returns all schedules, by name.
func (s *Scheduler) list() []*schedule {
	all := slices.Collect(s.each())
	slices.SortFunc(all, func(a, b *schedule) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Figures are what a node reports about its schedules.
type Figures struct {
	Active, Paused int
	// Firings counts the outcomes that this process has recorded.
	Firings map[schedules.Result]int
	// Waiting is since when the firing is due that is due longest and has no task; zero for none.
	Waiting time.Time
}

// Figures returns the current figures.
func (s *Scheduler) Figures() Figures {
	now := s.cfg.Clock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := Figures{Firings: maps.Clone(s.firings)}
	for _, sc := range s.all {
		if sc.State.Paused != nil {
			f.Paused++
		} else {
			f.Active++
		}
		for _, at := range sc.waiting(now, s.held.Load()) {
			if f.Waiting.IsZero() || at.Before(f.Waiting) {
				f.Waiting = at
			}
		}
	}
	return f
}

// waiting returns since when firings are due that have no task. While the node is paused, none is due.
func (sc *schedule) waiting(now time.Time, held bool) []time.Time {
	var times []time.Time
	for _, f := range sc.State.Starting {
		times = append(times, f.Since)
	}
	if !held && !sc.idle && !sc.due.IsZero() && sc.due.Before(now) {
		times = append(times, sc.due)
	}
	return times
}

func (s *Scheduler) countFirings(changes []change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		if c.State == nil {
			continue
		}
		for _, o := range c.State.News {
			s.firings[o.Result] += max(o.Count, 1)
		}
	}
}

func (s *Scheduler) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.all)
}
