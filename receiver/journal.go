package receiver

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
)

// Journal stores the changes of all hooks. *bus.Journal implements it.
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

// change is one change of a hook, an element of an entry of the journal. Exactly one of its parts is set.
type change struct {
	Name string `json:"name"`
	// By is who made the change; empty for the receiver.
	By      string         `json:"by,omitempty"`
	Put     *definition    `json:"put,omitempty"`
	Paused  *hooks.Pause   `json:"paused,omitempty"`
	Resumed bool           `json:"resumed,omitempty"`
	Rotated bool           `json:"rotated,omitempty"` // for the record alone: the secret is elsewhere
	Outcome *hooks.Outcome `json:"outcome,omitempty"`
	Deleted bool           `json:"deleted,omitempty"`
}

const (
	// snapshotEvery is the number of entries after which a snapshot replaces them, snapshotBytes their size.
	snapshotEvery = 4096
	snapshotBytes = 16 << 20
	// maxChanges bounds the changes of an entry, which are small unless they contain a definition.
	maxChanges = 100
)

// record appends changes to the journal and makes them. After an error the hooks may be older than the journal, and the next turn
// reads it again. The turn must be held.
func (r *Receiver) record(ctx context.Context, changes ...change) error {
	for len(changes) > 0 {
		n := min(len(changes), maxChanges)
		data, err := json.Marshal(changes[:n])
		if err != nil {
			return fault.Wrap(fault.Internal, err, "a hook cannot be encoded")
		}
		if r.journal == nil {
			if r.journal, err = r.cfg.Open(ctx, true); err != nil {
				return err
			}
		}
		at, err := r.journal.Append(ctx, r.position, data)
		if err != nil {
			r.stale = true
			return err
		}
		r.apply(changes[:n])
		r.position, changes = at, changes[n:]
		r.written += len(data)
	}
	r.snapshotIfDue(ctx)
	return nil
}

// reload reads the journal after the last position that was read, if the hooks may be older. The turn must be held.
func (r *Receiver) reload(ctx context.Context) error {
	if !r.stale || r.journal == nil {
		return nil
	}
	if r.position == 0 {
		if err := r.loadSnapshot(ctx); err != nil {
			return err
		}
	}
	err := r.journal.Read(ctx, r.position, func(position uint64, data []byte) error {
		var changes []change
		if err := json.Unmarshal(data, &changes); err != nil {
			return unreadable(err)
		}
		r.apply(changes)
		r.position = position
		r.written += len(data)
		return nil
	})
	r.stale = err != nil
	return err
}

func (r *Receiver) loadSnapshot(ctx context.Context) error {
	data, position, err := r.journal.Snapshot(ctx)
	if err != nil || data == nil {
		return err
	}
	var all []*hook
	if err := json.Unmarshal(data, &all); err != nil {
		return unreadable(err)
	}
	for _, h := range all {
		r.set(r.compiled(h))
	}
	r.position, r.snapshotAt = position, position
	return nil
}

func unreadable(err error) error {
	return fault.Wrap(fault.DataLoss, err, "the journal of the hooks is damaged").WithHint("orch restore brings a backup back")
}

// compiled compiles the expressions of a hook. An older orch may not know those of a newer one: such a hook refuses deliveries.
func (r *Receiver) compiled(h *hook) *hook {
	var err error
	if h.rules, err = compile(h.Definition.Definition); err != nil {
		r.log.LogAttrs(context.Background(), slog.LevelWarn, "hook_not_usable", slog.String("name", h.Name), slog.Any("error", err))
	}
	return h
}

// apply makes recorded changes.
func (r *Receiver) apply(changes []change) {
	for _, c := range changes {
		was := r.get(c.Name)
		switch {
		case c.Put != nil:
			next := &hook{Name: c.Name, Definition: *c.Put}
			if was != nil && was.Definition.ID == c.Put.ID {
				next.Paused, next.Outcomes, next.Counts = was.Paused, was.Outcomes, was.Counts
			}
			r.set(r.compiled(next))
		case was == nil:
		case c.Deleted:
			r.remove(c.Name)
		case c.Paused != nil, c.Resumed:
			next := *was
			next.Paused = c.Paused
			r.set(&next)
		case c.Outcome != nil:
			r.set(was.with(*c.Outcome))
		}
	}
}

// snapshotIfDue replaces the entries of the journal by a snapshot when there are many. A failure only leaves them there.
func (r *Receiver) snapshotIfDue(ctx context.Context) {
	if r.position-r.snapshotAt < snapshotEvery && r.written < snapshotBytes {
		return
	}
	data, err := json.Marshal(r.list())
	if err == nil {
		err = r.journal.SaveSnapshot(ctx, r.position, data)
	}
	if err != nil {
		r.log.LogAttrs(ctx, slog.LevelDebug, "hooks_not_snapshotted", slog.Any("error", err))
	}
	r.snapshotAt, r.written = r.position, 0 // try again only after as many entries
}

// waiting is an outcome that has to be recorded, and the channel for the result.
type waiting struct {
	change change
	done   chan error
}

// note records an outcome together with those of other deliveries that wait at the same time: they share one entry and one sync.
func (r *Receiver) note(ctx context.Context, name string, o hooks.Outcome) error {
	w := &waiting{change{Name: name, Outcome: &o}, make(chan error, 1)}
	r.queueing.Lock()
	r.queue = append(r.queue, w)
	r.queueing.Unlock()
	r.turn.Lock()
	defer r.turn.Unlock()
	r.queueing.Lock()
	batch := r.queue
	r.queue = nil
	r.queueing.Unlock()
	if len(batch) == 0 { // another delivery has recorded this one
		return <-w.done
	}
	changes := make([]change, len(batch))
	for i := range batch {
		changes[i] = batch[i].change
	}
	err := r.reload(ctx)
	if err == nil {
		err = r.record(ctx, changes...)
	}
	for _, one := range batch {
		one.done <- err
	}
	return <-w.done
}
