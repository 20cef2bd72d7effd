package orchestrator

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
)

// timers wakes open tasks at the times in their histories. Each task has at most one timer, for the next of these times. Timers
// are in memory only. A restart sets the pending timers again from the log, so none is lost.
type timers struct {
	mu     sync.Mutex
	queue  timerHeap
	byTask map[events.TaskID]*timer
	// changed is signalled when the first timer has changed.
	changed chan struct{}
}

// limitsTimer stands for calls that wait for a limit (Dispatcher.Wake), in place of a task.
const limitsTimer events.TaskID = ""

// wakeLimited requests that calls which wait for a limit are offered again at a time.
func (c *core) wakeLimited(at time.Time) { c.timers.set(at, limitsTimer) }

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

// set sets the timer of a task, unless the task has an earlier timer.
func (t *timers) set(at time.Time, id events.TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.byTask[id]
	switch {
	case own == nil:
		own = &timer{at: at, id: id}
		t.byTask[id] = own
		heap.Push(&t.queue, own)
	case at.Before(own.at):
		own.at = at
		heap.Fix(&t.queue, own.index)
	default:
		return
	}
	if own.index != 0 {
		return
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// setMaybe is set, but does nothing for nil.
func (t *timers) setMaybe(at *time.Time, id events.TaskID) {
	if at != nil {
		t.set(*at, id)
	}
}

// next returns when the timer of a task is due, or nil if the task has no timer.
func (t *timers) next(id events.TaskID) *time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own := t.byTask[id]; own != nil {
		return new(own.at)
	}
	return nil
}

// clear removes the timer of a task.
func (t *timers) clear(id events.TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own := t.byTask[id]; own != nil {
		delete(t.byTask, id)
		heap.Remove(&t.queue, own.index)
	}
}

// maxTimerWait limits one wait, so that timers are not late after a sleep of the machine: Go timers stand still during the
// sleep, while the wall clock advances.
const maxTimerWait = time.Minute

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
	next = maxTimerWait
	if len(t.queue) > 0 {
		next = min(t.queue[0].at.Sub(now), maxTimerWait)
	}
	return ids, next
}

// run wakes the tasks with due timers until ctx ends.
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
		// mu stays locked from due to wake, so that no other goroutine finds a task without a timer that was not woken yet.
		ids, next := t.due(o.cfg.Clock())
		for _, id := range ids {
			o.wake(id)
		}
		o.unlock()
		timer.Reset(next)
	}
}
