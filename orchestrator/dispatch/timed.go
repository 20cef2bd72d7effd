package dispatch

import (
	"container/heap"
	"iter"
	"time"
)

// timedLanes are lanes that wait for a time.
type timedLanes struct {
	queue timeHeap
	// until is for when a lane waits. An entry of queue with another time is void.
	until map[Lane]time.Time
}

// timedLane is a lane that waits until a time.
type timedLane struct {
	lane Lane
	at   time.Time
}

func newTimedLanes() *timedLanes { return &timedLanes{until: map[Lane]time.Time{}} }

// add lets a lane wait until a time, unless it waits for an earlier one.
func (t *timedLanes) add(l Lane, at time.Time) {
	if until, ok := t.until[l]; ok && !at.Before(until) {
		return
	}
	t.until[l] = at
	heap.Push(&t.queue, timedLane{l, at})
}

// due removes and yields the lanes whose time has come.
func (t *timedLanes) due(now time.Time) iter.Seq[Lane] {
	return func(yield func(Lane) bool) {
		for at, ok := t.next(); ok && !at.After(now); at, ok = t.next() {
			first, _ := heap.Pop(&t.queue).(timedLane)
			if !t.until[first.lane].Equal(first.at) {
				continue
			}
			delete(t.until, first.lane)
			if !yield(first.lane) {
				return
			}
		}
	}
}

// next returns the earliest time for which a lane waits, or for which one has waited; false for none.
func (t *timedLanes) next() (time.Time, bool) {
	if len(t.queue) == 0 {
		return time.Time{}, false
	}
	return t.queue[0].at, true
}

// timeHeap orders lanes by time. It implements heap.Interface.
type timeHeap []timedLane

func (h timeHeap) Len() int           { return len(h) }
func (h timeHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *timeHeap) Push(x any) {
	if t, ok := x.(timedLane); ok {
		*h = append(*h, t)
	}
}

// Pop implements heap.Interface.
func (h *timeHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
