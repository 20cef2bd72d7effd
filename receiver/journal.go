package receiver

import (
	"context"
	"log/slog"

	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/journaled"
)

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

// newState returns the state of the receiver in its journal.
func (r *Receiver) newState() *journaled.State[change] {
	return journaled.New(journaled.Config[change]{
		What: "hooks", Open: r.cfg.Open, Save: func() any { return r.list() }, Load: r.loadSnapshot, Logger: r.log,
		Apply: func(changes []change, _ bool) { r.apply(changes) },
	})
}

func (r *Receiver) loadSnapshot(data []byte) error {
	var all []*hook
	if err := journaled.Decode(data, &all); err != nil {
		return err
	}
	for _, h := range all {
		r.set(r.compiled(h))
	}
	return nil
}

// compiled compiles the expressions of a hook, and reads the name of its plan. An older orch may not know those of a newer one: such a hook refuses deliveries.
func (r *Receiver) compiled(h *hook) *hook {
	h.planName = h.Definition.PlanName()
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
	err := r.state.Reload(ctx)
	if err == nil {
		err = r.state.Record(ctx, changes...)
	}
	for _, one := range batch {
		one.done <- err
	}
	return <-w.done
}
