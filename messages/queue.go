package messages

import (
	"container/heap"
	"iter"
	"slices"
	"time"
)

// mailbox contains the pending messages of an address, by priority. The zero value is empty.
type mailbox struct {
	queues [MaxPriority + 1]queue
	count  int
}

// queueOf returns the queue of a message's priority.
func (b *mailbox) queueOf(it *item) *queue { return &b.queues[min(max(it.Priority, 0), MaxPriority)] }

func (b *mailbox) add(it *item) {
	b.queueOf(it).add(it)
	b.count++
}

func (b *mailbox) remove(it *item) {
	if b.queueOf(it).remove(it.Position) {
		b.count--
	}
}

// leastUrgent returns the oldest of the least urgent messages, or nil if none is less urgent than priority.
func (b *mailbox) leastUrgent(priority int) *item {
	for p := range min(priority, len(b.queues)) {
		if it := b.queues[p].first(); it != nil {
			return it
		}
	}
	return nil
}

// all yields the messages, least urgent first, and those of one priority in order.
func (b *mailbox) all() iter.Seq[*item] {
	return func(yield func(*item) bool) {
		for p := range b.queues {
			for _, it := range b.queues[p].items {
				if it != nil && !yield(it) {
					return
				}
			}
		}
	}
}

// queue contains messages in order. A removed message leaves an empty slot. The queue is compacted when half of the
// slots are empty, so that the amortized cost of a removal is constant. The first slot is never empty.
type queue struct {
	items []*item // nil where a message was removed
	// positions are the positions of the items, including removed ones.
	positions []uint64
	count     int
}

func (q *queue) add(it *item) {
	at, _ := slices.BinarySearch(q.positions, it.Position) // the end, except for a record that was applied late
	q.items, q.positions = slices.Insert(q.items, at, it), slices.Insert(q.positions, at, it.Position)
	q.count++
}

// remove removes the message at a position, and reports whether the queue contained it.
func (q *queue) remove(position uint64) bool {
	at, found := slices.BinarySearch(q.positions, position)
	if !found || q.items[at] == nil {
		return false
	}
	q.items[at] = nil
	q.count--
	first := 0
	for first < len(q.items) && q.items[first] == nil {
		first++
	}
	q.items, q.positions = q.items[first:], q.positions[first:]
	if len(q.items) > 2*q.count {
		q.compact()
	}
	return true
}

// compact removes the empty slots.
func (q *queue) compact() {
	items, positions := make([]*item, 0, q.count), make([]uint64, 0, q.count)
	for _, it := range q.items {
		if it != nil {
			items, positions = append(items, it), append(positions, it.Position)
		}
	}
	q.items, q.positions = items, positions
}

func (q *queue) first() *item {
	if len(q.items) == 0 {
		return nil
	}
	return q.items[0]
}

// expiryHeap is a heap of messages by expiry. Each message stores its index, so that it can be removed before it
// expires.
type expiryHeap []*item

var _ heap.Interface = (*expiryHeap)(nil)

// Len implements heap.Interface.
func (e expiryHeap) Len() int { return len(e) }

// Less implements heap.Interface.
func (e expiryHeap) Less(i, j int) bool { return e[i].ExpiresAt.Before(e[j].ExpiresAt) }

// Swap implements heap.Interface.
func (e expiryHeap) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].expiryIndex, e[j].expiryIndex = i, j
}

// Push implements heap.Interface.
func (e *expiryHeap) Push(x any) {
	it := x.(*item) //nolint:forcetypeassert // nothing else is pushed
	it.expiryIndex = len(*e)
	*e = append(*e, it)
}

// Pop implements heap.Interface.
func (e *expiryHeap) Pop() any {
	last := len(*e) - 1
	it := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return it
}

// expired returns an expired message, or nil.
func (e expiryHeap) expired(now time.Time) *item {
	if len(e) == 0 || e[0].Alive(now) {
		return nil
	}
	return e[0]
}
