package dispatch

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/work"
)

// Calls holds the queued and the leased calls of one task, by step.
type Calls struct {
	Task   events.TaskID
	Queued map[string]*Queued
	Leases map[string]*Lease
}

// NewCalls returns the Calls of a task without calls.
func NewCalls(task events.TaskID) Calls {
	return Calls{Task: task, Queued: map[string]*Queued{}, Leases: map[string]*Lease{}}
}

// Queued is a ready call that no worker holds.
type Queued struct {
	work.Ref

	Lane Lane
	// Since is when the call was queued. MaxWait is how long it may stay queued; 0 for no limit.
	Since   time.Time
	MaxWait time.Duration

	calls    *Calls
	priority int
	// created is when the task was created. order numbers the calls in the order of Enqueue.
	created time.Time
	order   uint64
	// index is the position of the call in the heap.
	index int
}

// Lease is a call that a worker holds.
type Lease struct {
	work.Ref

	Worker, Tool string
	// Lane is the lane from which the call was leased.
	Lane Lane
	// Called is set if the log records the start of the call.
	Called bool
	// Undelivered is set if the call could not be sent to the worker yet.
	Undelivered bool
	// LastHeartbeat is when the lease was last renewed; zero if it was not since the node restarted.
	LastHeartbeat time.Time
	// TTL is the time without a heartbeat after which the call is lost. Expires is the end of that time.
	TTL     time.Duration
	Expires time.Time
}

// Silent reports whether the worker has sent no heartbeat for half of the TTL. It returns false for nil.
func (l *Lease) Silent(now time.Time) bool { return l != nil && now.Sub(l.LastHeartbeat) > l.TTL/2 }

// callHeap orders calls by priority, then by the age of the task, then by the order of Enqueue.
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
	if c := t.created.Compare(u.created); c != 0 {
		return c < 0
	}
	return t.order < u.order
}

// Push implements heap.Interface.
func (q *callHeap) Push(x any) {
	if t, ok := x.(*Queued); ok {
		t.index = len(*q)
		*q = append(*q, t)
	}
}

// Pop implements heap.Interface.
func (q *callHeap) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = nil
	*q = (*q)[:len(*q)-1]
	return last
}
