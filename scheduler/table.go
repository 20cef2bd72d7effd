package scheduler

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
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

func (s *Scheduler) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.all)
}
