package orchestrator

import "github.com/orch-dev/orch/events"

// links tracks the relations between tasks: dependencies and delegated tasks.
type links struct {
	*core

	// waits maps a task to the tasks that wait for it.
	waits map[events.TaskID]map[events.TaskID]bool
	// named maps a task to the number of new tasks that are being written and will wait for it.
	named map[events.TaskID]int
	// delegated maps a parent task to its open delegated tasks, and each of these to the step of the parent that it is for.
	delegated map[events.TaskID]map[events.TaskID]string
}

func newLinks(c *core) *links {
	return &links{
		core: c, waits: map[events.TaskID]map[events.TaskID]bool{}, named: map[events.TaskID]int{},
		delegated: map[events.TaskID]map[events.TaskID]string{},
	}
}

// addDelegated adds an open delegated task to its parent. mu must be held.
func (ln *links) addDelegated(e *entry) {
	p := e.task.Submitted.Parent
	if p == nil || !p.Delegated() {
		return
	}
	if ln.delegated[p.Task] == nil {
		ln.delegated[p.Task] = map[events.TaskID]string{}
	}
	ln.delegated[p.Task][e.id] = p.Step
}

// removeDelegated removes a delegated task that has ended. mu must be held.
func (ln *links) removeDelegated(e *entry) {
	p := e.task.Submitted.Parent
	if p == nil || !p.Delegated() {
		return
	}
	delete(ln.delegated[p.Task], e.id)
	if len(ln.delegated[p.Task]) == 0 {
		delete(ln.delegated, p.Task)
	}
}

// nameDependencies adds by to the entries of named for the dependencies of a submission. mu must be held.
func (ln *links) nameDependencies(s *submission, by int) {
	for _, dep := range s.payload.DependsOn {
		if ln.named[dep] += by; ln.named[dep] == 0 {
			delete(ln.named, dep)
		}
	}
}

// removeWait records that task id no longer waits for dep. mu must be held.
func (ln *links) removeWait(dep, id events.TaskID) {
	delete(ln.waits[dep], id)
	if len(ln.waits[dep]) == 0 {
		delete(ln.waits, dep)
	}
}
