package sim_test

import (
	"strconv"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/traces"
)

// checkTraces checks that the spans of all tasks are closed, have ids of their own and known parents, and that there is one for each
// task, step, call, turn and approval up to the end of the task.
func (w *world) checkTraces(past []*history) {
	ids := map[traces.SpanID]bool{{}: true}
	var all []traces.Span
	for _, h := range past {
		fold := traces.NewFold(h.id)
		var spans []traces.Span
		for _, c := range h.commits {
			spans = append(spans, fold.Add(c.At, c.Actor, c.Events)...)
		}
		if open, parts := fold.Open(), traced(h); open > 0 || len(spans) != parts {
			w.fail("%s has %d parts, %d spans that have ended and %d others", h.id, parts, len(spans), open)
		}
		all = append(all, spans...)
	}
	for _, s := range all {
		if ids[s.ID] {
			w.fail("two spans have the id %s: %+v", s.ID, s)
		}
		ids[s.ID] = true
	}
	for _, s := range all {
		if !ids[s.Parent] {
			w.fail("the span above %+v is missing", s)
		}
		if s.End.Before(s.Start) {
			w.fail("a span ends before it starts: %+v", s)
		}
	}
}

// traced counts the parts of a task that have spans.
func traced(h *history) int {
	parts, state := map[string]bool{"": true}, statemachine.NeedsAction
	for _, c := range h.commits {
		for i, e := range c.Events {
			if state.Terminal() {
				return len(parts)
			}
			if next, ok := statemachine.Next(state, e.Kind); ok {
				state = next
			}
			if key := events.StepOf(e.Data); key != "" {
				parts[key] = true
			}
			switch e.Kind {
			case events.StepCalled, events.ApprovalRequested, events.TurnRequested:
				parts[strconv.FormatUint(c.Rev, 10)+" "+strconv.Itoa(i)] = true
			default: // a part of a step or of the task
			}
		}
	}
	return len(parts)
}
