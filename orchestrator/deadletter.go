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
func (d deadLetter) stuck() []api.Summary {
	d.lock()
	defer d.unlock()
	found := map[events.TaskID]bool{}
	var lines []api.Summary
	for id := range d.engine.queue.dispatcher.Unserved(stuckAfter) {
		if line := d.engine.listed.open[id]; line != nil && !found[id] && line.State != statemachine.Blocked {
			found[id] = true
			lines = append(lines, *line)
		}
		if len(lines) == maxStuck {
			break
		}
	}
	return lines
}
