package orchestrator

import (
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// listing tells the index of lists what changes. As long as the index lacks finished tasks, it also holds the summaries of the newest
// ones; this package calls a summary a line. The lines of older finished tasks are read from the log. Only the index has the lines of
// open tasks.
type listing struct {
	// keep is the maximum number of lines.
	keep  int
	lines map[events.TaskID]*api.Summary
	// ended holds the tasks with lines in the order of their end.
	ended []events.TaskID
	// forgottenUntil is a time limit: every finished task without a line, live or archived, was submitted and ended at this time
	// or earlier. It is zero if there is no such task.
	forgottenUntil time.Time
	// indexed is set when the index has all finished tasks. Then there are no lines.
	indexed bool
	// index receives every change of a line.
	index Lists
}

// raiseForgotten sets forgottenUntil to a time, unless it is later already.
func (l *listing) raiseForgotten(at time.Time) {
	if at.After(l.forgottenUntil) {
		l.forgottenUntil = at
	}
}

// leaveToIndex removes all lines, because the index has them.
func (l *listing) leaveToIndex() {
	endOfTime := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	l.indexed, l.lines, l.ended, l.forgottenUntil = true, nil, nil, endOfTime
}

func (l *listing) markArchived(id events.TaskID) {
	if line := l.lines[id]; line != nil {
		line.Archived = true
	}
	l.index.MarkArchived(id)
}

// committed updates the line of a task after a commit, if the commit has changed it. The time of an open task is only in its entry,
// where addReasons finds it.
func (l *listing) committed(e *entry, list []events.Event) {
	e.changedAt = e.task.UpdatedAt
	if e.task.State.Terminal() || slices.ContainsFunc(list, changesLine) {
		l.update(e)
	}
}

// changesLine reports whether an event may change the line of its task, except for its time.
func changesLine(e events.Event) bool {
	switch e.Data.(type) {
	case *events.Submitted, *events.Moved, *events.Paused:
		return true
	default:
		return false
	}
}

// loaded updates the line of a task that was read from the log. An old task that was read on request is where lists find it.
func (l *listing) loaded(e *entry) {
	e.changedAt = e.task.UpdatedAt
	if e.task.State.Terminal() && !e.open && !e.unsynced && l.isForgotten(e.task) {
		return
	}
	l.update(e)
}

func (l *listing) update(e *entry) {
	line := lineOfTask(e.task)
	line.Archived = e.archived
	l.index.Put(line, e.seq)
	if line.State.Terminal() && !l.indexed {
		l.addFinished(e, line)
	}
}

// addFinished sets the line of a finished task. A task that was evicted gets none, because it would evict a newer one.
func (l *listing) addFinished(e *entry, line api.Summary) {
	known := l.lines[e.id]
	if known != nil {
		line.Archived = line.Archived || known.Archived
		*known = line
		return
	}
	if e.open || !l.isForgotten(e.task) {
		l.setLine(&line)
		l.addEnded(e.id)
	}
}

func (l *listing) setLine(line *api.Summary) {
	if l.lines == nil {
		l.lines = map[events.TaskID]*api.Summary{}
	}
	l.lines[line.ID] = line
}

// finished returns copies of the lines of the finished tasks.
func (l *listing) finished() []api.Summary {
	lines := make([]api.Summary, 0, len(l.lines))
	for _, line := range l.lines {
		lines = append(lines, *line)
	}
	return lines
}

// copyOrigin copies the fields of a line that never change and that the log's index does not contain.
func copyOrigin(to *api.Summary, from api.Summary) {
	to.Labels, to.Priority, to.Requestor, to.Via, to.Session = from.Labels, from.Priority, from.Requestor, from.Via, from.Session
}

// lineOfTask returns the line of a task.
func lineOfTask(t *statemachine.Task) api.Summary {
	sub := t.Submitted
	line := api.Summary{
		ID: t.ID, Name: sub.Name, Priority: sub.Priority, Labels: sub.Labels, Requestor: t.Requestor, Via: sub.Via, Session: sub.Session,
		CreatedAt: t.CreatedAt, State: t.State, Reason: t.Reason, Block: t.Block, Paused: t.Paused, UpdatedAt: t.UpdatedAt,
	}
	if sub.Parent != nil {
		line.Parent = sub.Parent.Task
	}
	return line
}

// isForgotten reports whether a list request finds this finished task in the log's index (see forgottenUntil), so that the task
// needs no line.
func (l *listing) isForgotten(t *statemachine.Task) bool {
	return !l.forgottenUntil.IsZero() && !t.UpdatedAt.After(l.forgottenUntil) && !t.CreatedAt.After(l.forgottenUntil)
}

// addHead adds the line of a finished task from its entry in the log's index.
func (l *listing) addHead(h events.Head) {
	_, known := l.lines[h.Task]
	l.setLine(new(lineOf(h)))
	if !known {
		l.addEnded(h.Task)
	}
}

// lineOf returns the line of a task from its entry in the log's index. It lacks labels, priority and reason.
func lineOf(h events.Head) api.Summary {
	return api.Summary{
		ID: h.Task, Name: h.Name, State: statemachine.State(h.State), Parent: h.Parent, CreatedAt: h.Created, UpdatedAt: h.At, Imported: h.Imported,
	}
}

// addEnded appends a finished task, and removes the lines of the oldest finished tasks beyond keep.
func (l *listing) addEnded(id events.TaskID) {
	l.ended = append(l.ended, id)
	for len(l.ended) > l.keep {
		if line := l.lines[l.ended[0]]; line != nil {
			l.raiseForgotten(line.UpdatedAt)
			l.raiseForgotten(line.CreatedAt) // the clock may have been set back
		}
		delete(l.lines, l.ended[0])
		l.ended = l.ended[1:]
	}
}
