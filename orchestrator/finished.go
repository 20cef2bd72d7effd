package orchestrator

import (
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// finishedTasks are the finished tasks that are still completely in memory, the oldest first. Whoever asks for a result has
// mostly asked soon after the end.
type finishedTasks struct {
	// most and mostSteps limit the tasks and their steps. The newest leastFinished tasks stay whatever their size.
	most, mostSteps int

	tasks []finishedTask
	steps int
}

type finishedTask struct {
	id    events.TaskID
	steps int
}

// leastFinished is how many finished tasks stay in memory even if they have more than Limits.KeepOpenSteps steps.
const leastFinished = 16

// add adds a task that has just ended or that was read from the log.
func (f *finishedTasks) add(e *entry) {
	f.push(finishedTask{e.id, len(e.task.Steps)})
}

func (f *finishedTasks) push(t finishedTask) {
	f.tasks = append(f.tasks, t)
	f.steps += t.steps
}

// pop removes the oldest task.
func (f *finishedTasks) pop() finishedTask {
	t := f.tasks[0]
	f.tasks = f.tasks[1:]
	f.steps -= t.steps
	return t
}

// remove removes a task if it is among the newest.
func (f *finishedTasks) remove(id events.TaskID) {
	for i := len(f.tasks) - 1; i >= max(len(f.tasks)-2*archivePart, 0); i-- {
		if f.tasks[i].id == id {
			f.steps -= f.tasks[i].steps
			f.tasks = slices.Delete(f.tasks, i, i+1)
			return
		}
	}
}

// evict removes the oldest tasks from entries if there are too many. A task on which something depends stays, as the newest.
func (f *finishedTasks) evict(entries map[events.TaskID]*entry) {
	const atOnce = 8 // a call looks at no more, in case something depends on all of them
	for range min(len(f.tasks), max(len(f.tasks)-f.most, atOnce)) {
		if len(f.tasks) <= f.most && (f.steps <= f.mostSteps || len(f.tasks) <= leastFinished) {
			return
		}
		f.release(entries)
	}
}

// keptWhenCalm is how many finished tasks Shed keeps in memory.
const keptWhenCalm = 256

// Shed removes finished tasks from memory except the newest, for a node that has become calm. They are read from the log when
// somebody asks for them.
func (o *Orchestrator) Shed() {
	o.lock()
	defer o.unlock()
	o.finished.shrink(o.tasks, keptWhenCalm)
}

// shrink removes the oldest tasks from entries until most are left. A task on which something depends stays, as the newest.
func (f *finishedTasks) shrink(entries map[events.TaskID]*entry, most int) {
	for range len(f.tasks) - most {
		f.release(entries)
	}
}

// release removes the oldest task from entries. If something depends on it, it becomes the newest instead.
func (f *finishedTasks) release(entries map[events.TaskID]*entry) {
	t := f.pop()
	switch e := entries[t.id]; {
	case e == nil:
	case e.idle():
		delete(entries, t.id)
	default:
		f.push(t)
	}
}

// idle reports whether nothing in memory depends on the entry.
func (e *entry) idle() bool {
	if e.busy || len(e.turns) > 0 || e.calls.Leases.Len() > 0 || e.changed != nil || e.ended != nil {
		return false
	}
	return e.imported != nil || e.task.Count(statemachine.StepReady) == 0
}
