package dispatch

import (
	"container/heap"
	"iter"
)

// family holds the lanes that differ only in their limit keys. There may be a lane for each of thousands of customers, but all calls of
// a family are alike to a worker. So it is offered the first call of the first lane that no limit holds, and the others are not looked at.
type family struct {
	// lane is the lane of the calls without a limit key.
	lane   Lane
	single keyLane
	byKey  map[string]*keyLane
	open   openLanes
}

// keyLane holds the calls of a lane.
type keyLane struct {
	family *family
	key    string
	calls  callHeap
	// place is the position in family.open, from 1; 0 if the lane has no calls, or if a limit holds them.
	place int
}

// lane returns the lane.
func (w *keyLane) lane() Lane {
	l := w.family.lane
	l.Key = w.key
	return l
}

// find returns the lane of the calls with a limit key, or nil if it has none.
func (f *family) find(key string) *keyLane {
	if key != "" {
		return f.byKey[key]
	}
	if len(f.single.calls) == 0 {
		return nil
	}
	return &f.single
}

// add returns the lane of the calls with a limit key. It is made if it is missing.
func (f *family) add(key string) *keyLane {
	if key == "" {
		f.single.family = f
		return &f.single
	}
	w := f.byKey[key]
	if w == nil {
		if f.byKey == nil {
			f.byKey = map[string]*keyLane{}
		}
		w = &keyLane{family: f, key: key}
		f.byKey[key] = w
	}
	return w
}

// empty reports whether no call of the family is queued.
func (f *family) empty() bool { return len(f.single.calls) == 0 && len(f.byKey) == 0 }

// all yields the lanes with calls.
func (f *family) all() iter.Seq[*keyLane] {
	return func(yield func(*keyLane) bool) {
		if len(f.single.calls) > 0 && !yield(&f.single) {
			return
		}
		for _, w := range f.byKey {
			if !yield(w) {
				return
			}
		}
	}
}

// push queues a call. A lane that a limit holds stays shut.
func (w *keyLane) push(t *Queued) {
	first := len(w.calls) == 0
	heap.Push(&w.calls, t)
	if first {
		w.reopen()
	} else {
		w.moved()
	}
}

// remove removes a call.
func (w *keyLane) remove(t *Queued) {
	if len(w.calls) > 1 {
		heap.Remove(&w.calls, t.index)
		w.moved()
		return
	}
	w.shut()
	heap.Remove(&w.calls, t.index)
	if w.key != "" {
		delete(w.family.byKey, w.key)
	}
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

// lanes holds the lanes with queued calls: their families, by their lanes without a limit key.
type lanes map[Lane]*family

// find returns the calls of a lane, or nil if it has none.
func (ls lanes) find(l Lane) *keyLane {
	if f := ls[l.withoutKey()]; f != nil {
		return f.find(l.Key)
	}
	return nil
}

// push queues a call.
func (ls lanes) push(t *Queued) {
	f := ls[t.Lane.withoutKey()]
	if f == nil {
		f = &family{lane: t.Lane.withoutKey()}
		ls[f.lane] = f
	}
	f.add(t.Lane.Key).push(t)
}

// all yields the lanes with their calls.
func (ls lanes) all() iter.Seq2[Lane, callHeap] {
	return func(yield func(Lane, callHeap) bool) {
		for _, f := range ls {
			for w := range f.all() {
				if !yield(w.lane(), w.calls) {
					return
				}
			}
		}
	}
}
