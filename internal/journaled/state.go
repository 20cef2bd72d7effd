// Package journaled keeps the state of a service in a journal beside the log of tasks: each change is durable before it is made, a start
// makes the recorded changes again, and a snapshot replaces old ones.
package journaled

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"

	"github.com/orch-dev/orch/fault"
)

// Journal stores changes. *bus.Journal implements it.
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

// Open opens the journal of a service, which is created if create is set; nil if it does not exist.
type Open func(ctx context.Context, create bool) (Journal, error)

// Config configures a State. All fields but Every and Logger are required.
type Config[C any] struct {
	// What names the state for messages, such as "schedules".
	What string
	Open Open
	// Apply makes changes. recorded is set if this process has just recorded them; otherwise they were read.
	Apply func(changes []C, recorded bool)
	// Save returns the whole state for a snapshot, as a value for JSON. Load sets the state from that, which it decodes with Decode.
	Save func() any
	Load func(data []byte) error
	// Every is the number of entries after which a snapshot replaces them; default 4096.
	Every  uint64
	Logger *slog.Logger
}

const (
	// defaultEvery is the default of Config.Every. snapshotBytes is the size of the entries in bytes after which a snapshot replaces
	// them, however few they are.
	defaultEvery  = 4096
	snapshotBytes = 16 << 20
	// maxChanges bounds the changes of an entry, maxEntry is the size in bytes from which it takes no further one. So an entry stays far
	// below the size of a message.
	maxChanges = 100
	maxEntry   = 256 << 10
)

// State is a state in a journal, which changes of the type C make. It has no lock: its methods are called one at a time.
type State[C any] struct {
	cfg      Config[C]
	journal  Journal
	position uint64
	// snapshotAt is the position of the newest snapshot. written is the size of the entries since, in bytes.
	snapshotAt uint64
	written    int
	// stale is set if the state may be older than the journal.
	stale bool
}

// New returns a state that is read by Start.
func New[C any](cfg Config[C]) *State[C] {
	cfg.Every = cmp.Or(cfg.Every, defaultEvery)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &State[C]{cfg: cfg}
}

// Start opens the journal, and reads it if there is one. Errors: DATA_LOSS, UNAVAILABLE.
func (s *State[C]) Start(ctx context.Context) (err error) {
	if s.journal, err = s.cfg.Open(ctx, false); err != nil {
		return err
	}
	s.stale = s.journal != nil
	return s.Reload(ctx)
}

// Stale reports whether the state may be older than the journal, because a change could not be recorded or was not acknowledged.
func (s *State[C]) Stale() bool { return s.stale }

// Suspect makes the state one that may be older than the journal, since somebody else may have written there: a node that is not active
// any more, or this one, whose change was given up and arrived later.
func (s *State[C]) Suspect() { s.stale = s.stale || s.journal != nil }

// Position returns the position of the newest entry that the state has.
func (s *State[C]) Position() uint64 { return s.position }

// Reload reads what follows the last position that was read, if the state may be older than the journal.
func (s *State[C]) Reload(ctx context.Context) error {
	if !s.stale {
		return nil
	}
	if s.position == 0 {
		if err := s.loadSnapshot(ctx); err != nil {
			return err
		}
	}
	err := s.journal.Read(ctx, s.position, func(position uint64, data []byte) error {
		var changes []C
		if err := Decode(data, &changes); err != nil {
			return s.unreadable(err)
		}
		s.cfg.Apply(changes, false)
		s.position = position
		s.written += len(data)
		return nil
	})
	s.stale = err != nil
	return err
}

func (s *State[C]) loadSnapshot(ctx context.Context) error {
	data, position, err := s.journal.Snapshot(ctx)
	if err != nil || data == nil {
		return err
	}
	if err := s.cfg.Load(data); err != nil {
		return s.unreadable(err)
	}
	s.position, s.snapshotAt = position, position
	return nil
}

// Decode decodes an entry or a snapshot. It returns NEWER_STORE for one with a field that this program does not know, which may change
// what the entry means, and for an object with a field v, which later forms of journals have.
func Decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	switch {
	case !json.Valid(data): // a decoder ignores what follows a value
		return json.Unmarshal(data, into)
	case err == nil:
		return nil
	}
	var later struct {
		V *int `json:"v"`
	}
	if json.Unmarshal(data, into) == nil || json.Unmarshal(data, &later) == nil && later.V != nil {
		return fault.Wrap(fault.NewerStore, err, "it has a form that this orch does not know")
	}
	return err
}

func (s *State[C]) unreadable(err error) error {
	if fault.Has(err, fault.NewerStore) {
		return fault.Wrap(fault.NewerStore, err, "a newer orch has written the journal of the "+s.cfg.What).WithHint("use the newer orch; nothing is damaged")
	}
	return fault.Wrap(fault.DataLoss, err, "the journal of the "+s.cfg.What+" is damaged").WithHint("orch restore brings a backup back")
}

// Record appends changes to the journal, which is created if need be, and makes them. After an error Reload finds out which of them were
// recorded all the same.
func (s *State[C]) Record(ctx context.Context, changes ...C) error {
	for len(changes) > 0 {
		data, n, err := s.encode(changes)
		if err != nil {
			return err
		}
		if s.journal == nil {
			if s.journal, err = s.cfg.Open(ctx, true); err != nil {
				return err
			}
		}
		at, err := s.journal.Append(ctx, s.position, data)
		if err != nil {
			s.stale = true
			return err
		}
		s.cfg.Apply(changes[:n], true)
		s.position, changes = at, changes[n:]
		s.written += len(data)
	}
	s.snapshotIfDue(ctx)
	return nil
}

// encode encodes as many changes as one entry takes, and returns their number.
func (s *State[C]) encode(changes []C) ([]byte, int, error) {
	data := []byte{'['}
	for i := range changes[:min(len(changes), maxChanges)] {
		one, err := json.Marshal(changes[i])
		if err != nil {
			return nil, 0, fault.Wrap(fault.Internal, err, "a change of the "+s.cfg.What+" cannot be encoded")
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

// snapshotIfDue replaces the entries of the journal by a snapshot when there are many. A failure only leaves them there.
func (s *State[C]) snapshotIfDue(ctx context.Context) {
	if s.position-s.snapshotAt < s.cfg.Every && s.written < snapshotBytes {
		return
	}
	data, err := json.Marshal(s.cfg.Save())
	if err == nil {
		err = s.journal.SaveSnapshot(ctx, s.position, data)
	}
	if err != nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "state_not_snapshotted", slog.String("of", s.cfg.What), slog.Any("error", err))
	}
	s.snapshotAt, s.written = s.position, 0 // try again only after as many entries
}
