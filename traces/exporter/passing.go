package exporter

import (
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/traces"
)

// maxHeld is the number of spans that are kept in memory beside those of a request, together with the number of their tasks.
const maxHeld = 5000

// passing folds the histories that a look sees from their beginning, so that those of short tasks are not read once more.
type passing struct {
	tasks map[events.TaskID]*passed
	// held is the number of tasks and of their spans.
	held int
}

// passed is what was seen of a history.
type passed struct {
	fold  *traces.Fold
	rev   uint64
	spans []traces.Span
}

// clear forgets all tasks.
func (p *passing) clear() { p.tasks, p.held = map[events.TaskID]*passed{}, 0 }

// forget forgets a task.
func (p *passing) forget(id events.TaskID) {
	if t := p.tasks[id]; t != nil {
		p.held -= 1 + len(t.spans)
		delete(p.tasks, id)
	}
}

// add adds a commit, and forgets all tasks when there are too many spans. A history with a gap is forgotten.
func (p *passing) add(c *events.Commit) {
	t := p.tasks[c.Task]
	switch {
	case c.Rev == 1:
		p.forget(c.Task)
		t = &passed{fold: traces.NewFold(c.Task)}
		p.tasks[c.Task] = t
		p.held++
	case t == nil || t.rev+1 != c.Rev:
		p.forget(c.Task)
		return
	}
	t.rev = c.Rev
	spans := t.fold.Add(c.At, c.Actor, c.Events)
	t.spans = append(t.spans, spans...)
	if p.held += len(spans); p.held > maxHeld {
		p.clear()
	}
}

// take returns the spans of a task that has ended with the newest commit, and forgets it; nil if its beginning was not seen.
func (p *passing) take(id events.TaskID) []traces.Span {
	t := p.tasks[id]
	if t == nil {
		return nil
	}
	p.forget(id)
	return t.spans
}

// isInternal reports whether the first commit of a task is that of an internal one (events.OwnPrefix). The parts of a long loop are not
// internal here: their steps are those of the task above.
func isInternal(first *events.Commit) bool {
	return slices.ContainsFunc(first.Events, func(ev events.Event) bool {
		d, ok := ev.Data.(*events.Submitted)
		return ok && strings.HasPrefix(d.Name, events.OwnPrefix) && !strings.HasPrefix(d.Name, events.PartName)
	})
}
