package orchestrator

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
)

// alarms wakes tasks at the times that their histories name. It is memory only: after a restart it
// is filled again from the log, so every timer fires once whatever happens.
type alarms struct {
	mu    sync.Mutex
	queue alarmQueue
	// poke is signalled when the first alarm has changed.
	poke chan struct{}
}

type alarm struct {
	at time.Time
	id events.TaskID
}

type alarmQueue []alarm

func (q alarmQueue) Len() int           { return len(q) }
func (q alarmQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q alarmQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push is for container/heap.
func (q *alarmQueue) Push(x any) {
	if a, ok := x.(alarm); ok {
		*q = append(*q, a)
	}
}

// Pop is for container/heap.
func (q *alarmQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newAlarms() alarms { return alarms{poke: make(chan struct{}, 1)} }

func (a *alarms) set(at time.Time, id events.TaskID) {
	a.mu.Lock()
	heap.Push(&a.queue, alarm{at, id})
	first := a.queue[0].id == id && a.queue[0].at.Equal(at)
	a.mu.Unlock()
	if !first {
		return
	}
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

func (a *alarms) setMaybe(at *time.Time, id events.TaskID) {
	if at != nil {
		a.set(*at, id)
	}
}

// due removes the alarms that are due and returns them with the time until the next one.
func (a *alarms) due(now time.Time) (ids []events.TaskID, next time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 && !a.queue[0].at.After(now) {
		first, _ := heap.Pop(&a.queue).(alarm)
		ids = append(ids, first.id)
	}
	next = time.Hour
	if len(a.queue) > 0 {
		next = a.queue[0].at.Sub(now)
	}
	return ids, next
}

func (a *alarms) run(ctx context.Context, o *Orchestrator) {
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

// setAlarms sets every alarm that an open task needs. The lock is held.
func (o *Orchestrator) setAlarms(e *entry) {
	sub := e.task.Submitted
	o.alarms.setMaybe(sub.NotBefore, e.id)
	o.alarms.setMaybe(sub.Deadline, e.id)
	for _, s := range e.task.Steps {
		if !s.Due.IsZero() && !s.State.Over() {
			o.alarms.set(s.Due, e.id)
		}
	}
}
