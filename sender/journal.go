package sender

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/follow"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/journaled"
	"github.com/orch-dev/orch/plan"
)

// change is one change of a destination, an element of an entry of the journal. Exactly one of its parts is set.
type change struct {
	Name string `json:"name"`
	// By is who made the change; empty for the sender.
	By      string       `json:"by,omitempty"`
	Put     *definition  `json:"put,omitempty"`
	Paused  *hooks.Pause `json:"paused,omitempty"`
	Resumed bool         `json:"resumed,omitempty"`
	Rotated bool         `json:"rotated,omitempty"` // for the record alone: the secret is elsewhere
	Deleted bool         `json:"deleted,omitempty"`
	// Take adds deliveries. Cursor is set beside it, or alone.
	Take   []*item        `json:"take,omitempty"`
	Cursor *follow.Cursor `json:"cursor,omitempty"`
	Result *result        `json:"result,omitempty"`
	// Again are the ids of dead letters and of deliveries that wait after a failure. All are due at At, as if they had not failed.
	Again []string  `json:"again,omitempty"`
	At    time.Time `json:"at,omitzero"`
	// Discard are the ids of dead letters that are forgotten.
	Discard []string `json:"discard,omitempty"`
}

// result is the result of an attempt to deliver.
type result struct {
	Delivery string              `json:"delivery"`
	Attempt  api.DeliveryAttempt `json:"attempt"`
	// Next is the time of the next attempt; zero for a delivery that has arrived or is a dead letter.
	Next time.Time `json:"next,omitzero"`
	// Early is set for an attempt that does not count, since it was made before its time.
	Early bool `json:"early,omitempty"`
}

// newState returns the state of the sender in its journal.
func (s *Sender) newState() *journaled.State[change] {
	return journaled.New(journaled.Config[change]{
		What: "destinations", Open: s.cfg.Open, Save: s.saved, Load: s.loadSnapshot, Logger: s.log,
		Apply: func(changes []change, _ bool) { s.apply(changes) },
	})
}

// saved returns the whole state for a snapshot. Only the holder of turn changes it.
func (s *Sender) saved() any {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sorted()
}

func (s *Sender) loadSnapshot(data []byte) error {
	var all []*destination
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range all {
		d.Recorded = d.Cursor.Seq
		s.all[d.Name] = s.compiled(d)
	}
	return nil
}

// compiled compiles the expression of a destination. An older orch may not know that of a newer one: such a destination takes nothing
// from the log.
func (s *Sender) compiled(d *destination) *destination {
	var err error
	if d.rules, err = plan.CompileHook(d.Definition.When, nil); err != nil {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "destination_not_usable", slog.String("name", d.Name), slog.Any("error", err))
	}
	return d
}

// apply makes recorded changes.
func (s *Sender) apply(changes []change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		d := s.get(c.Name)
		switch {
		case c.Put != nil && (d == nil || d.Definition.ID != c.Put.ID):
			d = &destination{Name: c.Name, Definition: *c.Put}
			s.all[c.Name] = s.compiled(d)
		case c.Put != nil:
			d.Definition = *c.Put
			s.compiled(d)
		case d == nil:
			continue
		case c.Deleted:
			delete(s.all, c.Name)
		case c.Paused != nil, c.Resumed:
			d.Paused = c.Paused
		}
		d.change(c)
	}
}

// change makes a change of the deliveries.
func (d *destination) change(c *change) {
	if len(c.Take) > 0 {
		d.take(c.Take)
	}
	if c.Cursor != nil {
		d.Cursor, d.Recorded = *c.Cursor, c.Cursor.Seq
	}
	if c.Result != nil {
		d.note(c.Result)
	}
	for _, id := range c.Again {
		i := remove(&d.Dead, id)
		if i == nil {
			i = remove(&d.Pending, id)
		}
		if i != nil {
			d.Pending = append(d.Pending, &item{Task: i.Task, Rev: i.Rev, Index: i.Index, Seq: i.Seq, Type: i.Type, At: i.At, Next: c.At, Last: i.Last})
		}
	}
	if len(c.Again) > 0 {
		inOrder(d.Pending)
	}
	for _, id := range c.Discard {
		remove(&d.Dead, id)
	}
}

// note makes the result of an attempt.
func (d *destination) note(r *result) {
	was := remove(&d.Pending, r.Delivery)
	if was == nil {
		return
	}
	if r.Attempt.Error == "" {
		d.Delivered++
		if d.LastFailure != nil {
			d.recovered(r.Attempt.At)
		}
		d.LastDelivered, d.LastFailure = &r.Attempt.At, nil
		return
	}
	next := *was
	if !r.Early {
		next.Attempts++
	}
	next.Next, next.Last, next.Early = r.Next, &r.Attempt, time.Time{}
	d.LastFailure = &r.Attempt
	list := &d.Pending
	if r.Next.IsZero() {
		list = &d.Dead
	}
	*list = append(*list, &next)
	inOrder(*list)
}

// record records changes of a destination that still has an id; false if it does not exist any more. turn must be held.
func (s *Sender) record(ctx context.Context, name, id string, changes ...change) (bool, error) {
	if err := s.state.Reload(ctx); err != nil {
		return false, err
	}
	s.mu.RLock()
	d := s.get(name)
	same := d != nil && d.Definition.ID == id
	s.mu.RUnlock()
	if !same {
		return false, nil
	}
	for part := range slices.Chunk(changes, maxRecorded) {
		if err := s.state.Record(ctx, part...); err != nil {
			return false, err
		}
	}
	return true, nil
}

// maxRecorded is the number of changes in one call of Record, which makes entries of them.
const maxRecorded = 100
