package orchestrator

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
)

// timers wakes open tasks at the times in their histories. Each task has at most one timer, the next. Timers are in memory
// only. A restart sets them again from the log, so every timer fires once.
type timers struct {
	mu     sync.Mutex
	queue  timerHeap
	byTask map[events.TaskID]*timer
	// changed is signalled when the first timer has changed.
	changed chan struct{}
}

type timer struct {
	at    time.Time
	id    events.TaskID
	index int
}

type timerHeap []*timer

func (q timerHeap) Len() int { return len(q) }

// Less orders by time, then by task, so that the same history leads to the same decisions.
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
	return timers{byTask: map[events.TaskID]*timer{}, changed: make(chan struct{}, 1)}
}

// set sets the timer of a task, unless it has an earlier one.
func (t *timers) set(at time.Time, id events.TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byTask[id]
	switch {
	case one == nil:
		one = &timer{at: at, id: id}
		t.byTask[id] = one
		heap.Push(&t.queue, one)
	case at.Before(one.at):
		one.at = at
		heap.Fix(&t.queue, one.index)
	default:
		return
	}
	if one.index != 0 {
		return
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

func (t *timers) setMaybe(at *time.Time, id events.TaskID) {
	if at != nil {
		t.set(*at, id)
	}
}

// next returns when the timer of a task is due, nil if it has none.
func (t *timers) next(id events.TaskID) *time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.byTask[id]; one != nil {
		return new(one.at)
	}
	return nil
}

// clear removes the timer of a task.
func (t *timers) clear(id events.TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.byTask[id]; one != nil {
		delete(t.byTask, id)
		heap.Remove(&t.queue, one.index)
	}
}

// maxNap limits a wait, so that a sleep of the machine is noticed. Timers of Go do not advance while it sleeps, but the wall
// clock does.
const maxNap = time.Minute

// due removes the timers that are due, and returns them with the time until the next one.
func (t *timers) due(now time.Time) (ids []events.TaskID, next time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) > 0 && !t.queue[0].at.After(now) {
		id := t.queue[0].id
		heap.Pop(&t.queue)
		delete(t.byTask, id)
		ids = append(ids, id)
	}
	next = maxNap
	if len(t.queue) > 0 {
		next = min(t.queue[0].at.Sub(now), maxNap)
	}
	return ids, next
}

func (t *timers) run(ctx context.Context, o *engine) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.changed:
		case <-timer.C:
		}
		o.lock()
		ids, next := t.due(o.cfg.Clock()) // with mu held: a task without a timer has been woken
		for _, id := range ids {
			o.wake(id)
		}
		o.unlock()
		timer.Reset(next)
	}
}
