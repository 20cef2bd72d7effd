package sender

import (
	"context"
	"log/slog"

	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/follow"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

const (
	// maxUnrecorded is the number of commits without a delivery after which the cursor is recorded.
	maxUnrecorded = 10_000
	// maxTake is the number of deliveries in one change, so that a change stays smaller than an entry.
	maxTake = 500
	// maxFacts bounds Sender.facts.
	maxFacts = 1000
)

// reading is one look at the log for destinations with the same cursor.
type reading struct {
	*Sender

	from  follow.Cursor
	names []string
	// found are the deliveries of each destination, by its index; ids are those of the destinations.
	found [][]*item
	ids   []string
	wants []destinations.Definition
	rules []*plan.HookRules
	room  []int
}

// collect takes from the log what destinations want to know. Those that are full are left out until they have room.
func (s *Sender) collect(ctx context.Context) error {
	for from, names := range s.groups() {
		r := s.newReading(from, names)
		if err := r.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// groups returns the names of the destinations that have room, by their cursors. In the steady state all have the same one.
func (s *Sender) groups() map[follow.Cursor][]string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	groups := map[follow.Cursor][]string{}
	for _, d := range s.sorted() {
		if !d.full() && d.rules != nil {
			groups[d.Cursor] = append(groups[d.Cursor], d.Name)
		}
	}
	return groups
}

func (s *Sender) newReading(from follow.Cursor, names []string) *reading {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := &reading{Sender: s, from: from}
	for _, name := range names {
		if d := s.get(name); d != nil {
			r.names, r.ids, r.wants, r.rules = append(r.names, name), append(r.ids, d.Definition.ID), append(r.wants, d.Definition.Definition), append(r.rules, d.rules)
			r.room = append(r.room, MaxPending-len(d.Pending))
		}
	}
	r.found = make([][]*item, len(r.names))
	return r
}

// run reads and records what was found.
func (r *reading) run(ctx context.Context) error {
	look := follow.Look{Log: r.cfg.Log, Commit: r.commit, Full: r.isFull, Missing: r.missing}
	to, err := look.From(ctx, r.from)
	if err != nil || to == r.from {
		return err
	}
	return r.advance(ctx, to)
}

func (r *reading) isFull() bool {
	for i := range r.found {
		if len(r.found[i]) >= r.room[i] {
			return true
		}
	}
	return false
}

// missing reports whether an error says that something is not in the log any more, or damaged. It is then left out.
func (s *Sender) missing(ctx context.Context, err error) bool {
	gone := isGone(err)
	if gone {
		s.log.LogAttrs(ctx, slog.LevelWarn, "event_not_delivered", slog.Any("error", err))
	}
	return gone
}

func isGone(err error) bool {
	return fault.Has(err, fault.DataLoss) || fault.Has(err, fault.Gone) || fault.Has(err, fault.NotFound)
}

// commit adds the deliveries of a commit.
func (r *reading) commit(ctx context.Context, stored events.Stored) error {
	if stored.Import != nil {
		return nil
	}
	c, err := events.Decode(stored.Data)
	if r.missing(ctx, err) {
		return nil
	}
	if err != nil {
		return err
	}
	for index := range c.Events {
		if destinations.TypeOf(c.Events[index].Kind) == "" {
			continue
		}
		f, err := r.factsOf(ctx, c)
		if r.missing(ctx, err) {
			return nil
		}
		if err != nil {
			return err
		}
		r.event(ctx, c, index, stored.Seq, f)
	}
	return nil
}

// event adds the deliveries of an event.
func (r *reading) event(ctx context.Context, c *events.Commit, index int, seq uint64, f destinations.Facts) {
	e, ok := destinations.New(c, index, f, r.cfg.Redact)
	if !ok {
		return
	}
	for i := range r.names {
		if !r.wants[i].Wants(e.Type, f.Labels) || !r.chosen(ctx, i, e) {
			continue
		}
		r.found[i] = append(r.found[i], &item{Task: c.Task, Rev: c.Rev, Index: index, Seq: seq, Type: e.Type, At: c.At})
	}
}

// chosen reports whether the expression of a destination chooses an event. One that fails chooses it: a delivery too many is seen.
func (r *reading) chosen(ctx context.Context, i int, e destinations.Event) bool {
	if r.wants[i].When == "" {
		return true
	}
	body, err := r.encode(e)
	if err != nil {
		return true
	}
	chosen, err := r.rules[i].Chooses(plan.HookInfo{Name: r.names[i], Body: body})
	if err != nil {
		r.log.LogAttrs(ctx, slog.LevelDebug, "destination_expression_failed", slog.String("name", r.names[i]), slog.Any("error", err))
	}
	return chosen || err != nil
}

// factsOf returns the facts of the task of a commit.
func (s *Sender) factsOf(ctx context.Context, c *events.Commit) (destinations.Facts, error) {
	if f, found := s.facts[c.Task]; found {
		return f, nil
	}
	f, err := s.readFacts(ctx, c)
	if err != nil {
		return f, err
	}
	if len(s.facts) >= maxFacts {
		clear(s.facts)
	}
	s.facts[c.Task] = f
	return f, nil
}

func (s *Sender) readFacts(ctx context.Context, c *events.Commit) (destinations.Facts, error) {
	if c.Rev == 1 {
		return destinations.FactsOf(c), nil
	}
	first, err := s.read(ctx, c.Task, 1)
	if err != nil {
		return destinations.Facts{}, err
	}
	return destinations.FactsOf(first), nil
}

// read returns a commit of a task. Errors: NOT_FOUND, GONE, DATA_LOSS, UNAVAILABLE.
func (s *Sender) read(ctx context.Context, task events.TaskID, rev uint64) (*events.Commit, error) {
	for stored, err := range s.cfg.Log.Read(ctx, task, rev) {
		if err != nil {
			return nil, err
		}
		return events.Decode(stored.Data)
	}
	return nil, fault.New(fault.NotFound, "the log has no revision %d of task %s", rev, task)
}

// advance records the deliveries that were found, with the cursor.
func (r *reading) advance(ctx context.Context, to follow.Cursor) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	for i, name := range r.names {
		if len(r.found[i]) == 0 && r.move(name, r.ids[i], to) {
			continue
		}
		if _, err := r.record(ctx, name, r.ids[i], takes(name, r.found[i], to)...); err != nil {
			return err
		}
	}
	return nil
}

// takes returns the changes that add deliveries and set the cursor. The cursor is last: a crash before it repeats the look.
func takes(name string, items []*item, to follow.Cursor) []change {
	var all []change
	for len(items) > maxTake {
		all = append(all, change{Name: name, Take: items[:maxTake]})
		items = items[maxTake:]
	}
	return append(all, change{Name: name, Take: items, Cursor: &to})
}

// move sets a cursor without recording it, unless that is overdue. A crash only repeats the look.
func (s *Sender) move(name, id string, to follow.Cursor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.get(name)
	if d == nil || d.Definition.ID != id {
		return true
	}
	if to.Seq-d.Recorded >= maxUnrecorded {
		return false
	}
	d.Cursor = to
	return true
}
