package orchestrator

import "github.com/orch-dev/orch/events"

// Held returns the number of tasks that are whole in memory.
func (o *Orchestrator) Held() int {
	o.lock()
	defer o.unlock()
	return len(o.tasks)
}

// Pollers returns the number of workers that wait for work.
func (o *Orchestrator) Pollers() int {
	o.lock()
	defer o.unlock()
	return o.queue.dispatcher.Waiting()
}

// DueFamilies returns the tasks that may be removed. due holds the parents of those that are due, kept those of others.
func DueFamilies(due, kept map[events.TaskID]events.TaskID, exists func(events.TaskID) (bool, error)) ([]events.TaskID, error) {
	f := families{parent: map[events.TaskID]events.TaskID{}, parentsOfKept: map[events.TaskID]bool{}}
	for id, parent := range due {
		f.add(id, parent, true)
	}
	for id, parent := range kept {
		f.add(id, parent, false)
	}
	return f.due(exists)
}
