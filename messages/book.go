package messages

import (
	"cmp"
	"container/heap"
	"iter"
	"maps"
	"slices"
	"time"
)

// Book is what records add up to: the heads of the messages that live, who still needs them, and who is in which
// group. It is a fold without a clock of its own, and not safe for concurrent use.
type Book struct {
	items map[string]*item
	// boxes has the messages of each address; those of a recipient without what they have acknowledged. ends has them all.
	boxes map[string]*box
	ends  ends
	// members has where in the order somebody joined a group, groups the same by member.
	members map[string]map[string]uint64
	groups  map[string]map[string]uint64

	bytes, memberships int
	// takes counts who has taken which of the messages that live.
	takes int
}

// item is the head of a message.
type item struct {
	Message

	size int
	// place is that among the ends.
	place int
	// taken are the recipients who need it no more, as far as they would otherwise.
	taken map[string]struct{}
}

// NewBook returns an empty one.
func NewBook() *Book {
	return &Book{
		items: map[string]*item{}, boxes: map[string]*box{},
		members: map[string]map[string]uint64{}, groups: map[string]map[string]uint64{},
	}
}

// Apply takes a record at its position. Records of one thing have to come in their order. It returns the message that
// is new, nil when there is none.
func (b *Book) Apply(position uint64, r Record) *Message { return b.apply(position, r, r.size()) }

// size is that of the message of a record, as far as it counts: to measure it takes time.
func (r *Record) size() int {
	if r.Kind != Sent {
		return 0
	}
	return r.Message.Size()
}

func (b *Book) apply(position uint64, r Record, size int) *Message {
	switch r.Kind {
	case Sent:
		return b.add(position, r.Message, size)
	case Done:
		b.drop(b.items[r.Message.ID])
	case Taken:
		if it := b.items[r.ID]; it != nil {
			b.take(r.Who, it)
		}
	case Joined:
		b.join(position, r.Group, r.Who)
	case Left:
		b.leave(r.Group, r.Who)
	}
	return nil
}

// take notes that somebody needs a message no more. Who would not see it anyway is not remembered.
func (b *Book) take(who string, it *item) {
	if _, taken := it.taken[who]; !taken && b.concerns(who, it) {
		it.taken[who] = struct{}{}
		b.takes++
	}
	b.unbox(who, it)
}

func (b *Book) add(position uint64, m *Message, size int) *Message {
	if b.items[m.ID] != nil {
		return nil
	}
	it := &item{Message: *m, size: size, taken: map[string]struct{}{}}
	it.Position, it.Payload = position, nil
	b.items[m.ID] = it
	b.bytes += it.size
	for _, to := range it.To {
		if b.boxes[to] == nil {
			b.boxes[to] = &box{}
		}
		b.boxes[to].add(it)
	}
	heap.Push(&b.ends, it)
	return &it.Message
}

func (b *Book) drop(it *item) {
	if it == nil {
		return
	}
	delete(b.items, it.ID)
	b.bytes -= it.size
	b.takes -= len(it.taken)
	heap.Remove(&b.ends, it.place)
	for _, to := range it.To {
		b.unbox(to, it)
	}
}

func (b *Book) unbox(address string, it *item) {
	box := b.boxes[address]
	if box == nil {
		return
	}
	if box.remove(it); box.count == 0 {
		delete(b.boxes, address)
	}
}

// queued is how many messages wait at an address.
func (b *Book) queued(address string) int {
	if box := b.boxes[address]; box != nil {
		return box.count
	}
	return 0
}

// of yields the messages of an address.
func (b *Book) of(address string) iter.Seq[*item] {
	if box := b.boxes[address]; box != nil {
		return box.all()
	}
	return func(func(*item) bool) {}
}

func (b *Book) join(position uint64, group, who string) {
	if _, in := b.members[group][who]; in { // since the first time
		return
	}
	if b.members[group] == nil {
		b.members[group] = map[string]uint64{}
	}
	if b.groups[who] == nil {
		b.groups[who] = map[string]uint64{}
	}
	b.members[group][who], b.groups[who][group] = position, position
	b.memberships++
}

func (b *Book) leave(group, who string) {
	if _, in := b.members[group][who]; !in {
		return
	}
	b.memberships--
	delete(b.members[group], who)
	delete(b.groups[who], group)
	for it := range b.of(group) { // what they have taken of it they do not see again
		if _, taken := it.taken[who]; taken && !b.concerns(who, it) {
			delete(it.taken, who)
			b.takes--
		}
	}
	if len(b.members[group]) == 0 {
		delete(b.members, group)
	}
	if len(b.groups[who]) == 0 {
		delete(b.groups, who)
	}
}

// Expire drops the messages that have expired.
func (b *Book) Expire(now time.Time) {
	for it := b.ends.expired(now); it != nil; it = b.ends.expired(now) {
		b.drop(it)
	}
}

// GroupsOf returns the groups of a member, in order.
func (b *Book) GroupsOf(who string) []string { return slices.Sorted(maps.Keys(b.groups[who])) }

// needs reports whether somebody still has to see a message. Members of a group see what was sent after they joined.
func (b *Book) needs(who string, it *item, now time.Time) bool {
	_, taken := it.taken[who]
	return !taken && it.Alive(now) && b.concerns(who, it)
}

// concerns reports whether a message is for somebody.
func (b *Book) concerns(who string, it *item) bool {
	return it.Addresses(who, func(group string) bool {
		since, in := b.members[group][who]
		return in && since < it.Position
	})
}

// waiting returns what somebody still has to see up to a position, in the order of arrival.
func (b *Book) waiting(who string, upTo uint64, now time.Time) []*item {
	var found []*item
	look := func(address string) {
		for it := range b.of(address) {
			if it.Position <= upTo && b.needs(who, it, now) {
				found = append(found, it)
			}
		}
	}
	look(who)
	look(All)
	for group := range b.groups[who] {
		look(group)
	}
	byPosition := func(x, y *item) int { return cmp.Compare(x.Position, y.Position) }
	if !slices.IsSortedFunc(found, byPosition) {
		slices.SortFunc(found, byPosition)
	}
	return slices.CompactFunc(found, func(x, y *item) bool { return x == y }) // one that is addressed twice
}

// weakest returns the oldest of the least urgent messages of an address, nil when none is less urgent than priority.
func (b *Book) weakest(address string, priority int) *item {
	if box := b.boxes[address]; box != nil {
		return box.weakest(priority)
	}
	return nil
}

// settled reports whether nobody needs a message once somebody has taken it. Of one to all nobody knows who will come: it is
// settled when so many have taken it. Members are looked at in no order, so that one who lacks it is soon found.
func (b *Book) settled(it *item, by string, most int) bool {
	lacks := func(who string) bool {
		_, taken := it.taken[who]
		return who != by && !taken
	}
	for _, to := range it.To {
		switch {
		case to == All && len(it.taken)+1 < most:
			return false
		case to == All:
		case !IsGroup(to) && lacks(to):
			return false
		}
		for member := range b.members[to] {
			if lacks(member) && b.concerns(member, it) {
				return false
			}
		}
	}
	return true
}
