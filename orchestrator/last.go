package orchestrator

import (
	"context"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// latest are the newest tasks since the start, which @last is mostly about.
type latest struct {
	task events.TaskID
	// by holds the newest task that each person has submitted by a command.
	by map[string]events.TaskID
}

// maxLatest bounds the people whose newest task is kept at hand; that of others is looked up.
const maxLatest = 1000

// made notes a new task that is nobody's child.
func (l *latest) made(id events.TaskID, t *statemachine.Task) {
	l.task = id
	if t.Submitted.Via == "" {
		return
	}
	if l.by == nil || len(l.by) >= maxLatest {
		l.by = map[string]events.TaskID{}
	}
	l.by[t.Requestor] = id
}

// of is the newest task of an actor, or of anybody; empty when there was none since the start.
func (l *latest) of(actor string) events.TaskID {
	if actor == "" {
		return l.task
	}
	return l.by[actor]
}

// findLast finds the newest task of an actor; that of anybody when there is none.
func (rd *reader) findLast(ctx context.Context, actor string) (api.FindReply, error) {
	rd.lock()
	last := rd.engine.last.of(actor)
	rd.unlock()
	if last != "" {
		return api.FindReply{ID: last}, nil
	}
	lines, err := rd.lines(ctx)
	if err != nil {
		return api.FindReply{}, err
	}
	lines = slices.DeleteFunc(lines, func(s api.Summary) bool { return s.Parent != "" || ownName(s.Name) })
	switch {
	case len(lines) == 0:
		return api.FindReply{}, fault.New(fault.NotFound, "there are no tasks yet").WithHint("orch submit PLAN.yaml")
	case actor == "":
		return api.FindReply{ID: slices.MinFunc(lines, newer).ID}, nil
	}
	slices.SortFunc(lines, newer)
	return rd.findLastOf(ctx, actor, lines)
}

// maxLooked bounds the tasks that are read to find the newest one of somebody.
const maxLooked = 2000

// findLastOf finds the newest task that an actor has submitted by a command, among lines in order.
func (rd *reader) findLastOf(ctx context.Context, actor string, lines []api.Summary) (api.FindReply, error) {
	for _, line := range lines[:min(len(lines), maxLooked)] {
		if line.Priority == "" { // what the log's index has lacks the rest
			var err error
			line, err = rd.complete(ctx, line)
			if absent(err) || unreadableHistory(err) {
				continue // it has left the archive meanwhile, or nobody can read it
			}
			if err != nil {
				return api.FindReply{}, err
			}
		}
		if line.Via != "" && line.Requestor == actor {
			return api.FindReply{ID: line.ID}, nil
		}
	}
	return api.FindReply{}, fault.New(fault.NotFound, "%s has submitted no task, of which @last would be the newest", actor).
		WithHint("orch list shows the tasks of all")
}
