package orchestrator

import (
	"context"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// latest holds the newest tasks since the start, to resolve @last.
type latest struct {
	task events.TaskID
	// by maps people to the newest task that each of them submitted with a command.
	by map[string]events.TaskID
}

// maxLatest limits the people in latest.by. A full map is emptied; findLastOf then reads the list.
const maxLatest = 1000

// add records a new task without a parent.
func (l *latest) add(id events.TaskID, t *statemachine.Task) {
	l.task = id
	if t.Submitted.Via == "" {
		return
	}
	if l.by == nil || len(l.by) >= maxLatest {
		l.by = map[string]events.TaskID{}
	}
	l.by[t.Requestor] = id
}

// newestOf returns the newest task of an actor, or of all submitters if actor is empty; "" if there was none since the start.
func (l *latest) newestOf(actor string) events.TaskID {
	if actor == "" {
		return l.task
	}
	return l.by[actor]
}

// findLast finds the newest task of an actor, or of all submitters if actor is empty.
func (rd *reader) findLast(ctx context.Context, actor string) (api.FindReply, error) {
	rd.lock()
	last := rd.engine.last.newestOf(actor)
	rd.unlock()
	if last != "" {
		return api.FindReply{ID: last}, nil
	}
	if lists := rd.indexedLists(); lists != nil {
		id, ok := lists.Last(actor)
		if !ok {
			return api.FindReply{}, noLast(actor)
		}
		return api.FindReply{ID: id}, nil
	}
	lines, err := rd.lines(ctx)
	if err != nil {
		return api.FindReply{}, err
	}
	lines = slices.DeleteFunc(lines, func(s api.Summary) bool { return s.Parent != "" || isInternalName(s.Name) })
	switch {
	case len(lines) == 0:
		return api.FindReply{}, noLast("")
	case actor == "":
		return api.FindReply{ID: slices.MinFunc(lines, newestFirst).ID}, nil
	}
	slices.SortFunc(lines, newestFirst)
	return rd.findLastOf(ctx, actor, lines)
}

// maxLastReads limits the tasks that are read to find the newest one of an actor.
const maxLastReads = 2000

// findLastOf finds the newest task that an actor submitted with a command, among sorted lines.
func (rd *reader) findLastOf(ctx context.Context, actor string, lines []api.Summary) (api.FindReply, error) {
	for _, line := range lines[:min(len(lines), maxLastReads)] {
		if line.Priority == "" { // a line of the log's index is incomplete
			var err error
			line, err = rd.complete(line, rd.cfg.Log.Read(ctx, line.ID, 1))
			if absent(err) || unreadableHistory(err) {
				continue // it was removed meanwhile, or cannot be read
			}
			if err != nil {
				return api.FindReply{}, err
			}
		}
		if line.Via != "" && line.Requestor == actor {
			return api.FindReply{ID: line.ID}, nil
		}
	}
	return api.FindReply{}, noLast(actor)
}

// noLast returns the error for an actor without a newest task.
func noLast(actor string) error {
	if actor == "" {
		return fault.New(fault.NotFound, "there are no tasks yet").WithHint("orch submit PLAN.yaml")
	}
	return fault.New(fault.NotFound, "%s has submitted no task that @last could mean", actor).WithHint("orch list shows the tasks of all")
}
