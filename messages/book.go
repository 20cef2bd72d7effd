package messages

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Book is what records add up to: the heads of the messages that live, who still needs them, and who is in which
// group. It is a fold without a clock of its own, and not safe for concurrent use.
type Book struct {
	items map[string]*item
	// boxes has the messages of each address in their order; those of a recipient without what they have acknowledged.
	boxes map[string][]*item
	// members has where in the order somebody joined a group, groups the same by member.
	members map[string]map[string]uint64
	groups  map[string]map[string]uint64

	bytes, memberships int
}

// item is the head of a message.
type item struct {
	Message

	size int
	// taken are the recipients who need it no more.
	taken map[string]struct{}
}

// NewBook returns an empty one.
func NewBook() *Book {
	return &Book{
		items: map[string]*item{}, boxes: map[string][]*item{},
		members: map[string]map[string]uint64{}, groups: map[string]map[string]uint64{},
	}
}

// Apply takes a record at its position. Records of one thing have to come in their order. It returns the message that
// is new, nil when there is none.
func (b *Book) Apply(position uint64, r Record) *Message {
	switch r.Kind {
	case Sent:
		return b.add(position, r.Message)
	case Done:
		b.drop(b.items[r.Message.ID])
	case Taken:
		if it := b.items[r.ID]; it != nil {
			it.taken[r.Who] = struct{}{}
			b.unbox(r.Who, it)
		}
	case Joined:
		b.join(position, r.Group, r.Who)
	case Left:
		b.leave(r.Group, r.Who)
	}
	return nil
}

func (b *Book) add(position uint64, m *Message) *Message {
	if b.items[m.ID] != nil {
		return nil
	}
	it := &item{Message: *m, size: m.Size(), taken: map[string]struct{}{}}
	it.Position, it.Payload = position, nil
	b.items[m.ID] = it
	b.bytes += it.size
	for _, to := range it.To {
		at, _ := slices.BinarySearchFunc(b.boxes[to], position, func(have *item, p uint64) int { return cmp.Compare(have.Position, p) })
		b.boxes[to] = slices.Insert(b.boxes[to], at, it)
	}
	return &it.Message
}

func (b *Book) drop(it *item) {
	if it == nil {
		return
	}
	delete(b.items, it.ID)
	b.bytes -= it.size
	for _, to := range it.To {
		b.unbox(to, it)
	}
}

func (b *Book) unbox(address string, it *item) {
	box := b.boxes[address]
	at, found := slices.BinarySearchFunc(box, it.Position, func(have *item, p uint64) int { return cmp.Compare(have.Position, p) })
	if !found {
		return
	}
	if b.boxes[address] = slices.Delete(box, at, at+1); len(b.boxes[address]) == 0 {
		delete(b.boxes, address)
	}
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
	if len(b.members[group]) == 0 {
		delete(b.members, group)
	}
	if len(b.groups[who]) == 0 {
		delete(b.groups, who)
	}
}

// Expire drops the messages that have expired.
func (b *Book) Expire(now time.Time) {
	for _, it := range b.items {
		if !it.Alive(now) {
			b.drop(it)
		}
	}
}

// GroupsOf returns the groups of a member, in order.
func (b *Book) GroupsOf(who string) []string { return slices.Sorted(maps.Keys(b.groups[who])) }

// needs reports whether somebody still has to see a message. Members of a group see what was sent after they joined.
func (b *Book) needs(who string, it *item, now time.Time) bool {
	if _, taken := it.taken[who]; taken || !it.Alive(now) {
		return false
	}
	return it.Addresses(who, func(group string) bool {
		since, in := b.members[group][who]
		return in && since < it.Position
	})
}

// waiting returns what somebody still has to see up to a position, in the order of arrival.
func (b *Book) waiting(who string, upTo uint64, now time.Time) []*item {
	boxes := [][]*item{b.boxes[who], b.boxes[All]}
	for group := range b.groups[who] {
		boxes = append(boxes, b.boxes[group])
	}
	var found []*item
	for _, it := range slices.Concat(boxes...) {
		if it.Position <= upTo && b.needs(who, it, now) {
			found = append(found, it)
		}
	}
	slices.SortFunc(found, func(x, y *item) int { return cmp.Compare(x.Position, y.Position) })
	return slices.CompactFunc(found, func(x, y *item) bool { return x == y }) // one that is addressed twice
}

// weakest returns the oldest of the least urgent messages of an address, nil when none is less urgent than priority.
func (b *Book) weakest(address string, priority int) *item {
	var found *item
	for _, it := range b.boxes[address] {
		if it.Priority < priority {
			found, priority = it, it.Priority
		}
	}
	return found
}
