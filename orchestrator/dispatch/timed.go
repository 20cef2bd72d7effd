package dispatch

import (
	"container/heap"
	"iter"
	"time"
)

// timedLanes are the lanes that wait for a time, in the order of these times. It implements heap.Interface.
type timedLanes []*keyLane

// add lets a lane wait until a time, unless it waits for an earlier one.
func (t *timedLanes) add(w *keyLane, at time.Time) {
	switch {
	case w.timed == 0:
		w.until = at
		heap.Push(t, w)
	case at.Before(w.until):
		w.until = at
		heap.Fix(t, w.timed-1)
	}
}

// remove removes a lane, if it waits.
func (t *timedLanes) remove(w *keyLane) {
	if w.timed > 0 {
		heap.Remove(t, w.timed-1)
	}
}

// due removes and yields the lanes whose time has come.
func (t *timedLanes) due(now time.Time) iter.Seq[*keyLane] {
	return func(yield func(*keyLane) bool) {
		for at, ok := t.next(); ok && !at.After(now); at, ok = t.next() {
			w := (*t)[0]
			t.remove(w)
			if !yield(w) {
				return
			}
		}
	}
}

// next returns the earliest time for which a lane waits; false for none.
func (t *timedLanes) next() (time.Time, bool) {
	if len(*t) == 0 {
		return time.Time{}, false
	}
	return (*t)[0].until, true
}

func (t timedLanes) Len() int           { return len(t) }
func (t timedLanes) Less(i, j int) bool { return t[i].until.Before(t[j].until) }

func (t timedLanes) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timed, t[j].timed = i+1, j+1
}

// Push implements heap.Interface.
func (t *timedLanes) Push(x any) {
	if w, ok := x.(*keyLane); ok {
		*t = append(*t, w)
		w.timed = len(*t)
	}
}

// Pop implements heap.Interface.
func (t *timedLanes) Pop() any {
	last := (*t)[len(*t)-1]
	last.timed = 0
	(*t)[len(*t)-1] = nil
	*t = (*t)[:len(*t)-1]
	return last
}
