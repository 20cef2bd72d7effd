package scheduler

import (
	"context"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/internal/journaled"
	"github.com/orch-dev/orch/schedules"
)

// change is one change of a schedule, an element of an entry of the journal. Exactly one of its parts is set.
type change struct {
	Name string `json:"name"`
	// By is who made the change; empty for the scheduler.
	By string `json:"by,omitempty"`
	// Put is a new definition, State what has changed in the state. Deleted removes the schedule.
	Put     *definition      `json:"put,omitempty"`
	State   *schedules.State `json:"state,omitempty"`
	Deleted bool             `json:"deleted,omitempty"`
}

// newState returns the state of the scheduler in its journal.
func (s *Scheduler) newState() *journaled.State[change] {
	return journaled.New(journaled.Config[change]{
		What: "schedules", Open: s.cfg.Open, Save: func() any { return s.list() }, Load: s.loadSnapshot, Logger: s.log,
		Apply: func(changes []change, recorded bool) {
			s.apply(changes)
			if recorded {
				s.countFirings(changes)
			}
		},
	})
}

func (s *Scheduler) loadSnapshot(data []byte) error {
	var all []*schedule
	if err := journaled.Decode(data, &all); err != nil {
		return err
	}
	for _, one := range all {
		s.compile(one)
		s.set(one)
	}
	return nil
}

// compile compiles the rules of a schedule. An older orch may not know those of a newer one: such a schedule starts no tasks.
func (s *Scheduler) compile(sc *schedule) {
	var err error
	if sc.table, err = schedules.Compile(sc.Definition.Spec); err != nil {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "schedule_not_usable", slog.String("name", sc.Name), slog.Any("error", err))
	}
}

// apply makes recorded changes.
func (s *Scheduler) apply(changes []change) {
	for _, c := range changes {
		was := s.get(c.Name)
		switch {
		case c.Deleted:
			s.remove(c.Name)
		case c.Put != nil:
			next := &schedule{Name: c.Name, Definition: *c.Put, State: &schedules.State{Through: c.Put.UpdatedAt}}
			if was != nil && was.Definition.ID == c.Put.ID {
				next.State = was.State.Clone()
				next.State.CountFrom(c.Put.UpdatedAt)
			}
			s.compile(next)
			s.set(next)
		case c.State != nil && was != nil:
			next := *was
			next.due, next.idle = time.Time{}, false
			next.State = was.State.Clone()
			next.State.Apply(c.State)
			s.set(&next)
		}
	}
}
