package orchestrator

import "github.com/orch-dev/orch/events"

// links are what binds tasks to each other by name: dependencies, and what was delegated.
type links struct {
	*core

	// waits holds the tasks that wait for another one, by that.
	waits map[events.TaskID]map[events.TaskID]bool
	// named counts, by dependency, the tasks that are being written and will wait for it.
	named map[events.TaskID]int
	// delegated holds the open delegated tasks, by the task that they are for, with the step of it.
	delegated map[events.TaskID]map[events.TaskID]string
}

func newLinks(c *core) *links {
	return &links{
		core: c, waits: map[events.TaskID]map[events.TaskID]bool{}, named: map[events.TaskID]int{},
		delegated: map[events.TaskID]map[events.TaskID]string{},
	}
}

// noteDelegated notes an open delegated task at its parent. The lock is held.
func (ln *links) noteDelegated(e *entry) {
	p := e.task.Submitted.Parent
	if p == nil || !p.Delegated() {
		return
	}
	if ln.delegated[p.Task] == nil {
		ln.delegated[p.Task] = map[events.TaskID]string{}
	}
	ln.delegated[p.Task][e.id] = p.Step
}

// dropDelegated forgets a delegated task that is over. The lock is held.
func (ln *links) dropDelegated(e *entry) {
	p := e.task.Submitted.Parent
	if p == nil || !p.Delegated() {
		return
	}
	delete(ln.delegated[p.Task], e.id)
	if len(ln.delegated[p.Task]) == 0 {
		delete(ln.delegated, p.Task)
	}
}

// nameDependencies counts a task that is being written among those that will wait for its dependencies. The lock is held.
func (ln *links) nameDependencies(s *submission, by int) {
	for _, dep := range s.payload.DependsOn {
		if ln.named[dep] += by; ln.named[dep] == 0 {
			delete(ln.named, dep)
		}
	}
}

func (ln *links) unwait(dep, id events.TaskID) {
	delete(ln.waits[dep], id)
	if len(ln.waits[dep]) == 0 {
		delete(ln.waits, dep)
	}
}
