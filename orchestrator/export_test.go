package orchestrator

import (
	"context"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// Held returns the number of tasks that are whole in memory.
func (o *Orchestrator) Held() int {
	o.lock()
	defer o.unlock()
	return len(o.tasks)
}

// MeasureLock calls held with every time that the lock of the owner was held.
func (o *Orchestrator) MeasureLock(held func(time.Duration)) {
	o.lock()
	defer o.unlock()
	o.held, o.lockedAt = held, time.Now()
}

// Pollers returns the number of workers that wait for work.
func (o *Orchestrator) Pollers() int {
	o.lock()
	defer o.unlock()
	return o.queue.dispatcher.Waiting()
}

// DueFamilies returns the tasks that may be removed. due holds the parents of those that are due, kept those of others.
func DueFamilies(due, kept map[events.TaskID]events.TaskID, exists func(events.TaskID) (bool, error)) ([]events.TaskID, error) {
	f := newFamilies()
	for id, parent := range due {
		f.add(id, dueHead{parent: parent}, true)
	}
	for id, parent := range kept {
		f.add(id, dueHead{parent: parent}, false)
	}
	tasks, err := f.due(exists)
	if len(tasks) == 0 {
		return nil, err
	}
	return idsOf(tasks), err
}

// ListHeads answers a list without the index of lists.
func (o *Orchestrator) ListHeads(ctx context.Context, r api.ListRequest) (api.ListReply, error) {
	if err := checkList(&r); err != nil {
		return api.ListReply{}, err
	}
	return o.listHeads(ctx, r)
}

// RemoveNow removes archived tasks as retention does.
func (o *Orchestrator) RemoveNow(ctx context.Context, ids []events.TaskID) error {
	_, err := o.removeSome(ctx, dueTasksOf(ids))
	return err
}

func dueTasksOf(ids []events.TaskID) []dueTask {
	due := make([]dueTask, len(ids))
	for i, id := range ids {
		due[i] = dueTask{id: id, family: id}
	}
	return due
}

// Lines returns the number of finished tasks whose summaries are kept beside the index of lists.
func (o *Orchestrator) Lines() int {
	o.lock()
	defer o.unlock()
	return len(o.listed.lines)
}
