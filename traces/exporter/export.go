package exporter

import (
	"context"
	"iter"
	"log/slog"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/follow"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/traces"
	"github.com/orch-dev/orch/traces/otlp"
)

// look finds the next tasks that have ended.
func (e *Exporter) look(ctx context.Context) error {
	var found []ended
	read, held := 0, 0
	look := follow.Look{
		Log: e.cfg.Log,
		Commit: func(ctx context.Context, stored events.Stored) error {
			read++
			end, ok, err := e.endOf(ctx, stored)
			if ok {
				if held += len(end.spans); held > maxHeld {
					end.spans = nil
				}
				found = append(found, end)
			}
			return err
		},
		Full:    func() bool { return len(found) >= maxTasks },
		Missing: e.missing,
	}
	next, err := look.From(ctx, e.cursor)
	if err != nil {
		e.passing.clear() // the next look sees the same commits
		return err
	}
	e.next, e.more = next, read >= busy || len(found) >= maxTasks
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = found
	return nil
}

// endOf returns the end of a task, if a commit has one.
func (e *Exporter) endOf(ctx context.Context, stored events.Stored) (ended, bool, error) {
	if stored.Import != nil {
		return ended{}, false, nil
	}
	c, err := events.Decode(stored.Data)
	if err != nil {
		if e.missing(ctx, err) {
			err = nil
		}
		return ended{}, false, err
	}
	if c.Rev > 1 || !isInternal(c) {
		e.passing.add(c)
	}
	if !slices.ContainsFunc(c.Events, func(ev events.Event) bool { return traces.Ends(ev.Kind) }) {
		return ended{}, false, nil
	}
	return ended{c.Task, c.At, e.passing.take(c.Task)}, true, nil
}

// missing reports whether an error says that something is not in the log any more, or damaged. It is then left out.
func (e *Exporter) missing(ctx context.Context, err error) bool {
	gone := fault.Has(err, fault.DataLoss) || fault.Has(err, fault.Gone) || fault.Has(err, fault.NotFound)
	if gone {
		e.log.LogAttrs(ctx, slog.LevelWarn, "trace_not_readable", slog.Any("error", err))
	}
	return gone
}

// export sends the spans of the tasks that have ended, and forgets those whose spans were all sent.
func (e *Exporter) export(ctx context.Context) error {
	var spans []traces.Span
	whole := 0
	flush := func() error {
		if err := e.send(ctx, spans); err != nil {
			return err
		}
		e.forget(whole)
		spans, whole = spans[:0], 0
		return nil
	}
	for whole < len(e.ended) {
		for some, err := range e.spansOf(ctx, e.ended[whole]) {
			if err != nil {
				return err
			}
			for len(spans)+len(some) >= otlp.SpansAtOnce {
				room := otlp.SpansAtOnce - len(spans)
				spans, some = append(spans, some[:room]...), some[room:]
				if err := flush(); err != nil {
					return err
				}
			}
			spans = append(spans, some...)
		}
		whole++
	}
	return flush()
}

// forget removes the first tasks that have ended.
func (e *Exporter) forget(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = e.ended[n:]
}

// spansOf yields the spans of a task, commit by commit if it reads them; none for an internal task, and for one that is not in the log any more.
func (e *Exporter) spansOf(ctx context.Context, end ended) iter.Seq2[[]traces.Span, error] {
	return func(yield func([]traces.Span, error) bool) {
		if end.spans != nil {
			yield(end.spans, nil)
			return
		}
		fold := traces.NewFold(end.task)
		for stored, err := range e.cfg.Log.Read(ctx, end.task, 1) {
			var c *events.Commit
			if err == nil {
				c, err = events.Decode(stored.Data)
			}
			if err != nil {
				if !e.missing(ctx, err) {
					yield(nil, err)
				}
				return
			}
			if c.Rev == 1 && isInternal(c) || !yield(fold.Add(c.At, c.Actor, c.Events), nil) {
				return
			}
		}
	}
}

// send sends spans. A collector that takes smaller requests alone gets halves. Spans that it refuses are left out, as the protocol
// demands.
func (e *Exporter) send(ctx context.Context, spans []traces.Span) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := e.cfg.Source.Encode(spans)
	if err != nil {
		return err
	}
	if err = e.cfg.Collector.Send(ctx, body); err == nil {
		e.took(len(spans))
		return nil
	}
	switch reason := fault.From(err); {
	case reason.Reason == otlp.RequestTooLarge && len(spans) > 1:
		half := len(spans) / 2
		if err := e.send(ctx, spans[:half]); err != nil {
			return err
		}
		return e.send(ctx, spans[half:])
	case reason.Reason == otlp.RequestTooLarge, reason.Reason == otlp.SpansRefused:
		e.refused(ctx, len(spans), err)
		return nil
	default:
		return err
	}
}

// took notes that the collector has taken spans.
func (e *Exporter) took(n int) {
	e.mu.Lock()
	e.figures.Sent += n
	e.mu.Unlock()
	e.refusing = false
}

// refused notes that the collector has refused spans. The first time in a row is a warning.
func (e *Exporter) refused(ctx context.Context, n int, err error) {
	level := slog.LevelDebug
	if !e.refusing {
		level = slog.LevelWarn
	}
	e.refusing = true
	e.mu.Lock()
	e.figures.Refused += n
	e.mu.Unlock()
	e.log.LogAttrs(ctx, level, "spans_refused", slog.Int("spans", n), slog.Any("error", err))
}
