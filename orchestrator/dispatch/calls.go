package dispatch

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/work"
)

// Calls are the calls of one task that wait for a worker, or that workers have, by step.
type Calls struct {
	Task   events.TaskID
	Queued map[string]*Queued
	Leases map[string]*Lease
}

// NewCalls returns those of a task that has none.
func NewCalls(task events.TaskID) Calls {
	return Calls{Task: task, Queued: map[string]*Queued{}, Leases: map[string]*Lease{}}
}

// Queued is a ready call that no worker has.
type Queued struct {
	work.Ref

	Lane Lane
	// Since is when it was queued, Within how long it may be there; 0 for ever.
	Since   time.Time
	MaxWait time.Duration

	calls    *Calls
	priority int
	age      time.Time
	order    uint64
	// index is the place in the heap.
	index int
}

// Lease is a call in the hands of a worker.
type Lease struct {
	work.Ref

	Worker, Tool string
	// Share is the identity in whose share the call counts.
	Share string
	// Called is set when the log says that the call has begun, Suspect when the call has lost workers.
	Called, Suspect bool
	// Undelivered is set when the call could not be sent to the worker for now.
	Undelivered bool
	// LastHeartbeat is when the worker last spoke of the call, zero when it has not since the node restarted.
	LastHeartbeat time.Time
	// TTL is the silence after which the call is given up, Expires when that will be.
	TTL     time.Duration
	Expires time.Time
}

// Silent reports whether the worker of a call was not heard of for so long that the call may be given up soon; never for nil.
func (l *Lease) Silent(now time.Time) bool { return l != nil && now.Sub(l.LastHeartbeat) > l.TTL/2 }

// callHeap orders by priority, then by the age of the task, then by arrival.
type callHeap []*Queued

func (q callHeap) Len() int           { return len(q) }
func (q callHeap) Less(i, j int) bool { return q[i].before(q[j]) }

func (q callHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (t *Queued) before(u *Queued) bool {
	if t.priority != u.priority {
		return t.priority < u.priority
	}
	if c := t.age.Compare(u.age); c != 0 {
		return c < 0
	}
	return t.order < u.order
}

// Push and Pop are for container/heap.
func (q *callHeap) Push(x any) {
	if t, ok := x.(*Queued); ok {
		t.index = len(*q)
		*q = append(*q, t)
	}
}

// Pop removes the last element.
func (q *callHeap) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = nil
	*q = (*q)[:len(*q)-1]
	return last
}

// The priorities of calls, the most urgent first.
const (
	critical = iota
	high
	normal
	low
)

// Urgency orders the priorities of tasks, the most urgent first; an unknown one is normal.
func Urgency(priority string) int {
	switch priority {
	case "critical":
		return critical
	case "high":
		return high
	case "low":
		return low
	default:
		return normal
	}
}
