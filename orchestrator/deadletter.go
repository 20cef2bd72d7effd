package orchestrator

import (
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// deadLetter finds the tasks that need a person.
type deadLetter struct{ *reader }

// of returns the lines of tasks in the dead letter.
func (d deadLetter) of(lines []api.Summary) []api.Summary {
	known := make(map[events.TaskID]bool, len(lines))
	for _, line := range lines {
		known[line.ID] = true
	}
	has := func(id events.TaskID) bool { return known[id] }
	return slices.DeleteFunc(lines, func(line api.Summary) bool { return !d.has(line, has) })
}

// has reports whether a task is in the dead letter. known reports whether there is a task with an id.
func (d deadLetter) has(line api.Summary, known func(events.TaskID) bool) bool {
	if line.Imported {
		return false
	}
	switch line.State {
	case statemachine.Failed: // of an internal task, whoever has started it gets the error: for a part, the task of the for_each, which counts
		return !isInternalName(line.Name) && !d.toldClient(line) && !known(redriveOf(line.ID))
	case statemachine.Blocked:
		return line.Block != decide.BlockDependency
	default:
		return false
	}
}

// toldClient reports whether a failed task is a call of a session. Its client has got the error, such as the refusal by a policy, and
// its model goes on with it.
func (d deadLetter) toldClient(line api.Summary) bool {
	if line.Session == "" || line.Session == line.ID || line.Parent != "" {
		return false
	}
	_, called := d.cfg.Catalogue.Get(line.Name)
	return called
}

// stuckAfter is how long a call waits until its task counts as stuck. After a start of the node, workers need a moment to come back.
const stuckAfter = 10 * time.Second

// maxStuck limits the tasks that stuck returns, and so the time for which it holds the lock.
const maxStuck = 10_000

// stuck returns the lines of the tasks that api.ListRequest.Stuck selects. Those that are blocked are in the dead letter.
func (d deadLetter) stuck() (lines []api.Summary) {
	for _, id := range d.unserved(maxStuck) {
		line, ok := d.cfg.Lists.Line(id)
		if ok && !line.State.Terminal() && line.State != statemachine.Blocked {
			lines = append(lines, line)
		}
	}
	return lines
}

// maxCounted limits what CountStuck counts.
const maxCounted = 1000

// CountStuck returns the number of tasks that api.ListRequest.Stuck selects, at most 1,000. It is cheap as long as no task is stuck: it looks
// at each queue once.
func (op *operations) CountStuck() int {
	if op.serving() != nil {
		return 0
	}
	return len(deadLetter{op.reader}.unserved(maxCounted))
}

// unserved returns the tasks with calls that no worker takes, except blocked ones, at most limit.
func (d deadLetter) unserved(limit int) (ids []events.TaskID) {
	d.lock()
	defer d.unlock()
	found := map[events.TaskID]bool{}
	for id := range d.engine.queue.dispatcher.Unserved(stuckAfter) {
		e := d.engine.tasks[id]
		if e == nil || !e.open || found[id] || e.task != nil && e.task.State == statemachine.Blocked {
			continue
		}
		found[id] = true
		if ids = append(ids, id); len(ids) == limit {
			break
		}
	}
	return ids
}
