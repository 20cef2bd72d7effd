package orchestrator

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// timers wakes open tasks at the times that their histories name; each task has at most one, the next.
// It is memory only: after a restart it is filled again from the log, so every timer fires once
// whatever happens.
type timers struct {
	mu     sync.Mutex
	queue  timerHeap
	byTask map[events.TaskID]*timer
	// poke is signalled when the first timer has changed.
	poke chan struct{}
}

type timer struct {
	at    time.Time
	id    events.TaskID
	index int
}

type timerHeap []*timer

func (q timerHeap) Len() int { return len(q) }

// Less orders by time, and timers of the same time by task: the same history leads to the same decisions.
func (q timerHeap) Less(i, j int) bool {
	return cmp.Or(q[i].at.Compare(q[j].at), cmp.Compare(q[i].id, q[j].id)) < 0
}

func (q timerHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is for container/heap.
func (q *timerHeap) Push(x any) {
	if a, ok := x.(*timer); ok {
		a.index = len(*q)
		*q = append(*q, a)
	}
}

// Pop is for container/heap.
func (q *timerHeap) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = nil
	*q = (*q)[:len(*q)-1]
	return last
}

func newTimers() timers {
	return timers{byTask: map[events.TaskID]*timer{}, poke: make(chan struct{}, 1)}
}

// set wakes a task at a time, or earlier if it has an earlier timer.
func (a *timers) set(at time.Time, id events.TaskID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.byTask[id]
	switch {
	case one == nil:
		one = &timer{at: at, id: id}
		a.byTask[id] = one
		heap.Push(&a.queue, one)
	case at.Before(one.at):
		one.at = at
		heap.Fix(&a.queue, one.index)
	default:
		return
	}
	if one.index != 0 {
		return
	}
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

func (a *timers) setMaybe(at *time.Time, id events.TaskID) {
	if at != nil {
		a.set(*at, id)
	}
}

// clear takes the timer of a task away.
func (a *timers) clear(id events.TaskID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one := a.byTask[id]; one != nil {
		delete(a.byTask, id)
		heap.Remove(&a.queue, one.index)
	}
}

// due removes the timers that are due and returns them with the time until the next one.
func (a *timers) due(now time.Time) (ids []events.TaskID, next time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 && !a.queue[0].at.After(now) {
		id := a.queue[0].id
		heap.Pop(&a.queue)
		delete(a.byTask, id)
		ids = append(ids, id)
	}
	next = time.Hour
	if len(a.queue) > 0 {
		next = a.queue[0].at.Sub(now)
	}
	return ids, next
}

func (a *timers) run(ctx context.Context, o *Orchestrator) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.poke:
		case <-timer.C:
		}
		ids, next := a.due(o.cfg.Clock())
		o.lock()
		for _, id := range ids {
			o.wake(id)
		}
		o.unlock()
		timer.Reset(next)
	}
}

// setTimer sets the timer of an open task to the next time that its history names, after a time up to
// which everything that was due has been decided about. A time that has passed meanwhile wakes the task
// at once. The lock is held.
func (o *Orchestrator) setTimer(e *entry, decided time.Time) {
	sub := e.task.Submitted
	for _, at := range []*time.Time{sub.NotBefore, sub.Deadline} {
		if at != nil && at.After(decided) {
			o.timers.set(*at, e.id)
		}
	}
	for _, a := range e.task.Approvals {
		for _, at := range []*time.Time{&a.ExpiresAt, a.RemindAt} {
			if a.Status == statemachine.ApprovalPending && at != nil && at.After(decided) {
				o.timers.set(*at, e.id)
			}
		}
	}
	for _, q := range e.task.Questions {
		if q.Status == statemachine.QuestionOpen && q.ExpiresAt.After(decided) {
			o.timers.set(q.ExpiresAt, e.id)
		}
	}
	for _, s := range e.task.Steps {
		if s.Due.After(decided) && !s.State.Over() {
			o.timers.set(s.Due, e.id)
		}
	}
}
