package dispatch

import (
	"container/heap"
	"iter"
	"time"
)

// family holds the lanes that differ only in their limit keys. There may be a lane for each of thousands of customers, but all calls of
// a family are alike to a worker. So it is offered the first call of the first lane that no limit holds, and the others are not looked at.
//
// Calls and leases point to their lane, so that it is looked up only once. A family exists as long as one of its lanes has any.
type family struct {
	// lane is the lane of the calls without a limit key.
	lane   Lane
	single keyLane
	byKey  map[string]*keyLane
	open   openLanes
	// queued is the number of calls in all lanes.
	queued int
	// fresh is set while the family is in lanes.fresh.
	fresh bool
	share *share
}

// keyLane holds the calls of a lane.
type keyLane struct {
	family *family
	key    string
	calls  callHeap
	// leases is the number of leases of calls of the lane.
	leases int
	// place is the position in family.open, from 1; 0 if the lane has no calls, or if a limit holds them.
	place int
	// limits are the counts of limits that hold for the lane.
	limits []countKey
	// until is the time that the lane waits for, timed the position in limits.timed, from 1; 0 if it waits for none.
	until time.Time
	timed int
}

// lane returns the lane.
func (w *keyLane) lane() Lane {
	l := w.family.lane
	l.Key = w.key
	return l
}

// used reports whether the lane has calls or leases.
func (w *keyLane) used() bool { return len(w.calls) > 0 || w.leases > 0 }

// lanes yields the lanes with calls.
func (f *family) lanes() iter.Seq[*keyLane] {
	return func(yield func(*keyLane) bool) {
		if len(f.single.calls) > 0 && !yield(&f.single) {
			return
		}
		for _, w := range f.byKey {
			if len(w.calls) > 0 && !yield(w) {
				return
			}
		}
	}
}

// push queues a call. A lane that a limit holds stays shut.
func (w *keyLane) push(t *Queued) {
	first := len(w.calls) == 0
	heap.Push(&w.calls, t)
	w.family.queued++
	if first {
		w.reopen()
	} else {
		w.moved()
	}
}

// remove removes a call.
func (w *keyLane) remove(t *Queued) {
	w.family.queued--
	if len(w.calls) > 1 {
		heap.Remove(&w.calls, t.place-1)
		w.moved()
		return
	}
	w.shut()
	heap.Remove(&w.calls, t.place-1)
}

// moved restores the order of the open lanes after the first call of this one has changed.
func (w *keyLane) moved() {
	if w.place > 0 {
		heap.Fix(&w.family.open, w.place-1)
	}
}

// reopen lets the calls of the lane be taken.
func (w *keyLane) reopen() {
	if w.place == 0 && len(w.calls) > 0 {
		heap.Push(&w.family.open, w)
	}
}

// shut keeps the calls of the lane from being taken, until reopen.
func (w *keyLane) shut() {
	if w.place > 0 {
		heap.Remove(&w.family.open, w.place-1)
	}
}

// openLanes are the lanes whose calls can be taken, in the order of their first calls. It implements heap.Interface.
type openLanes []*keyLane

func (o openLanes) Len() int           { return len(o) }
func (o openLanes) Less(i, j int) bool { return o[i].calls[0].before(o[j].calls[0]) }

func (o openLanes) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i+1, j+1
}

// Push implements heap.Interface.
func (o *openLanes) Push(x any) {
	if w, ok := x.(*keyLane); ok {
		*o = append(*o, w)
		w.place = len(*o)
	}
}

// Pop implements heap.Interface.
func (o *openLanes) Pop() any {
	last := (*o)[len(*o)-1]
	last.place = 0
	(*o)[len(*o)-1] = nil
	*o = (*o)[:len(*o)-1]
	return last
}
