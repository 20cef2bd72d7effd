package dispatch

import (
	"iter"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/work"
)

// Calls holds the queued and the leased calls of one task.
type Calls struct {
	Task   events.TaskID
	Queued ByStep[*Queued]
	Leases ByStep[*Lease]
}

// call is a queued or a leased call.
type call interface {
	*Queued | *Lease
	step() string
}

// ByStep holds calls of a task by step. The zero value is empty. Most tasks have one call at a time, so a single call needs no map.
type ByStep[C call] struct {
	// single is the only call. several are the calls if there were two or more at the same time since there was none.
	single  C
	several map[string]C
}

// Get returns the call of a step, or nil.
func (b *ByStep[C]) Get(step string) C {
	if b.single != nil && b.single.step() == step {
		return b.single
	}
	return b.several[step]
}

// Len returns the number of calls.
func (b *ByStep[C]) Len() int {
	if b.single != nil {
		return 1
	}
	return len(b.several)
}

// All yields the calls, in no particular order. They may be removed meanwhile.
func (b *ByStep[C]) All() iter.Seq[C] {
	return func(yield func(C) bool) {
		if b.single != nil {
			yield(b.single)
			return
		}
		for _, c := range b.several {
			if !yield(c) {
				return
			}
		}
	}
}

// Steps returns the steps of the calls, sorted.
func (b *ByStep[C]) Steps() []string {
	var steps []string
	for c := range b.All() {
		steps = append(steps, c.step())
	}
	slices.Sort(steps)
	return steps
}

// put adds a call. It replaces that of the same step.
func (b *ByStep[C]) put(c C) {
	var none C
	switch {
	case b.several != nil:
		b.several[c.step()] = c
	case b.single == nil || b.single.step() == c.step():
		b.single = c
	default:
		b.several = map[string]C{b.single.step(): b.single, c.step(): c}
		b.single = none
	}
}

// remove removes the call of a step, if there is one.
func (b *ByStep[C]) remove(step string) {
	var none C
	if b.single != nil && b.single.step() == step {
		b.single = none
		return
	}
	if delete(b.several, step); len(b.several) == 0 {
		b.several = nil
	}
}

// Queued is a ready call that no worker holds.
type Queued struct {
	work.Ref

	// Since is when the call was queued. MaxWait is how long it may stay queued; 0 for no limit.
	Since   time.Time
	MaxWait time.Duration

	calls    *Calls
	lane     *keyLane
	priority int
	// created is when the task was created, in nanoseconds since 1970. order numbers the calls in the order of Enqueue.
	created int64
	order   uint64
	// place is the position of the call in keyLane.calls, from 1; 0 if the call is not queued any more.
	place int
}

func (t *Queued) step() string { return t.Step }

// Lane returns the lane in which the call waits.
func (t *Queued) Lane() Lane { return t.lane.lane() }

// Lease is a call that a worker holds.
type Lease struct {
	work.Ref

	Worker, Tool string
	// Called is set if the log records the start of the call.
	Called bool
	// Undelivered is set if the call could not be sent to the worker yet.
	Undelivered bool
	// LastHeartbeat is when the lease was last renewed; zero if it was not since the node restarted.
	LastHeartbeat time.Time
	// TTL is the time without a heartbeat after which the call is lost. Expires is the end of that time.
	TTL     time.Duration
	Expires time.Time

	// lane is the lane from which the call was leased.
	lane *keyLane
}

func (l *Lease) step() string { return l.Step }

// Silent reports whether the worker has sent no heartbeat for half of the TTL. It returns false for nil.
func (l *Lease) Silent(now time.Time) bool { return l != nil && now.Sub(l.LastHeartbeat) > l.TTL/2 }

// callHeap orders calls by priority, then by the age of the task, then by the order of Enqueue.
type callHeap []*Queued

func (q callHeap) Len() int           { return len(q) }
func (q callHeap) Less(i, j int) bool { return q[i].before(q[j]) }

func (q callHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i+1, j+1
}

func (t *Queued) before(u *Queued) bool {
	if t.priority != u.priority {
		return t.priority < u.priority
	}
	if t.created != u.created {
		return t.created < u.created
	}
	return t.order < u.order
}

// Push implements heap.Interface.
func (q *callHeap) Push(x any) {
	if t, ok := x.(*Queued); ok {
		*q = append(*q, t)
		t.place = len(*q)
	}
}

// Pop implements heap.Interface.
func (q *callHeap) Pop() any {
	last := (*q)[len(*q)-1]
	last.place = 0
	(*q)[len(*q)-1] = nil
	*q = (*q)[:len(*q)-1]
	return last
}
