package scheduler

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/schedules"
)

// Journal stores the changes of all schedules. *bus.Journal implements it.
type Journal interface {
	// Append appends an entry after the newest one and returns its position once it is durable; CONFLICT if newest is not the newest.
	Append(ctx context.Context, newest uint64, data []byte) (uint64, error)
	// Read calls fn for each entry after a position.
	Read(ctx context.Context, after uint64, fn func(position uint64, data []byte) error) error
	// Snapshot returns the newest snapshot and its position, nil if there is none.
	Snapshot(ctx context.Context) ([]byte, uint64, error)
	// SaveSnapshot stores a snapshot of all entries up to a position, and removes them.
	SaveSnapshot(ctx context.Context, position uint64, data []byte) error
}

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

const (
	// snapshotEvery is the number of entries after which a snapshot replaces them.
	snapshotEvery = 4096
	// maxChanges bounds the changes of an entry, so that it stays far below the size of a message. A change of a state has at most
	// a few hundred bytes, unless a thousand firings are buffered.
	maxChanges = 100
	// snapshotBytes is the size of the entries in bytes after which a snapshot replaces them.
	snapshotBytes = 16 << 20
	// maxEntry is the size in bytes from which an entry takes no further change.
	maxEntry = 256 << 10
)

// record appends changes to the journal and makes them. After an error the states may be older than the journal, and the next turn
// reads it again.
func (s *Scheduler) record(ctx context.Context, changes []change) error {
	for len(changes) > 0 {
		data, n, err := encode(changes)
		if err != nil {
			return err
		}
		journal, err := s.open(ctx)
		if err != nil {
			return err
		}
		at, err := journal.Append(ctx, s.position, data)
		if err != nil {
			s.stale = true
			return err
		}
		s.apply(changes[:n])
		s.countFirings(changes[:n])
		s.position, changes = at, changes[n:]
		s.written += len(data)
	}
	s.snapshotIfDue(ctx)
	return nil
}

// encode encodes as many changes as one entry takes, and returns their number.
func encode(changes []change) ([]byte, int, error) {
	data := []byte{'['}
	for i := range changes[:min(len(changes), maxChanges)] {
		one, err := json.Marshal(changes[i])
		if err != nil {
			return nil, 0, fault.Wrap(fault.Internal, err, "a schedule cannot be encoded")
		}
		if i > 0 {
			if len(data)+len(one) > maxEntry {
				return append(data, ']'), i, nil
			}
			data = append(data, ',')
		}
		data = append(data, one...)
	}
	return append(data, ']'), min(len(changes), maxChanges), nil
}

// load reads the journal after the last position that was read.
func (s *Scheduler) load(ctx context.Context) error {
	if s.journal == nil {
		return nil
	}
	if s.position == 0 {
		if err := s.loadSnapshot(ctx); err != nil {
			return err
		}
	}
	err := s.journal.Read(ctx, s.position, func(position uint64, data []byte) error {
		var changes []change
		if err := json.Unmarshal(data, &changes); err != nil {
			return unreadable(err)
		}
		s.apply(changes)
		s.position = position
		s.written += len(data)
		return nil
	})
	if err != nil {
		return err
	}
	s.stale = false
	return nil
}

func (s *Scheduler) loadSnapshot(ctx context.Context) error {
	data, position, err := s.journal.Snapshot(ctx)
	if err != nil || data == nil {
		return err
	}
	var all []*schedule
	if err := json.Unmarshal(data, &all); err != nil {
		return unreadable(err)
	}
	for _, one := range all {
		s.compile(one)
		s.set(one)
	}
	s.position, s.snapshotAt = position, position
	return nil
}

func unreadable(err error) error {
	return fault.Wrap(fault.DataLoss, err, "the journal of the schedules is damaged").WithHint("orch restore brings a backup back")
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
				next.State.Through = c.Put.UpdatedAt
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

// snapshotIfDue replaces the entries of the journal by a snapshot when there are many. A failure only leaves them there.
func (s *Scheduler) snapshotIfDue(ctx context.Context) {
	if s.position-s.snapshotAt < snapshotEvery && s.written < snapshotBytes {
		return
	}
	data, err := json.Marshal(s.list())
	if err == nil {
		err = s.journal.SaveSnapshot(ctx, s.position, data)
	}
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelDebug, "schedules_not_snapshotted", slog.Any("error", err))
	}
	s.snapshotAt, s.written = s.position, 0 // try again only after as many entries
}
