package messages

import (
	"cmp"
	"container/heap"
	"iter"
	"maps"
	"slices"
	"time"
)

// Projection is what records add up to: the heads of the messages that live, who still needs them, and who is in which
// group. It is a fold without a clock of its own, and not safe for concurrent use.
type Projection struct {
	items map[string]*item
	// mailboxes has the messages of each address; those of a recipient without what they have acknowledged. expiries has them all.
	mailboxes map[string]*mailbox
	expiries  expiryHeap
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
	// expiryIndex is that in the heap of expiries.
	expiryIndex int
	// taken are the recipients who need it no more, as far as they would otherwise.
	taken map[string]struct{}
}

// NewProjection returns an empty one.
func NewProjection() *Projection {
	return &Projection{
		items: map[string]*item{}, mailboxes: map[string]*mailbox{},
		members: map[string]map[string]uint64{}, groups: map[string]map[string]uint64{},
	}
}

// Apply takes a record at its position. Records of one thing have to come in their order. It returns the message that
// is new, nil when there is none.
func (p *Projection) Apply(position uint64, r Record) *Message { return p.apply(position, r, r.size()) }

// size is that of the message of a record, as far as it counts: to measure it takes time.
func (r *Record) size() int {
	if r.Kind != Sent {
		return 0
	}
	return r.Message.Size()
}

func (p *Projection) apply(position uint64, r Record, size int) *Message {
	switch r.Kind {
	case Sent:
		return p.add(position, r.Message, size)
	case Done:
		p.drop(p.items[r.Message.ID])
	case Taken:
		if it := p.items[r.ID]; it != nil {
			p.take(r.Who, it)
		}
	case Joined:
		p.join(position, r.Group, r.Who)
	case Left:
		p.leave(r.Group, r.Who)
	}
	return nil
}

// take notes that somebody needs a message no more. Who would not see it anyway is not remembered.
func (p *Projection) take(who string, it *item) {
	if _, taken := it.taken[who]; !taken && p.concerns(who, it) {
		it.taken[who] = struct{}{}
		p.takes++
	}
	p.removeFromMailbox(who, it)
}

func (p *Projection) add(position uint64, m *Message, size int) *Message {
	if p.items[m.ID] != nil {
		return nil
	}
	it := &item{Message: *m, size: size, taken: map[string]struct{}{}}
	it.Position, it.Payload = position, nil
	p.items[m.ID] = it
	p.bytes += it.size
	for _, to := range it.To {
		if p.mailboxes[to] == nil {
			p.mailboxes[to] = &mailbox{}
		}
		p.mailboxes[to].add(it)
	}
	heap.Push(&p.expiries, it)
	return &it.Message
}

func (p *Projection) drop(it *item) {
	if it == nil {
		return
	}
	delete(p.items, it.ID)
	p.bytes -= it.size
	p.takes -= len(it.taken)
	heap.Remove(&p.expiries, it.expiryIndex)
	for _, to := range it.To {
		p.removeFromMailbox(to, it)
	}
}

func (p *Projection) removeFromMailbox(address string, it *item) {
	box := p.mailboxes[address]
	if box == nil {
		return
	}
	if box.remove(it); box.count == 0 {
		delete(p.mailboxes, address)
	}
}

// queued is how many messages wait at an address.
func (p *Projection) queued(address string) int {
	if box := p.mailboxes[address]; box != nil {
		return box.count
	}
	return 0
}

// of yields the messages of an address.
func (p *Projection) of(address string) iter.Seq[*item] {
	if box := p.mailboxes[address]; box != nil {
		return box.all()
	}
	return func(func(*item) bool) {}
}

func (p *Projection) join(position uint64, group, who string) {
	if _, in := p.members[group][who]; in { // since the first time
		return
	}
	if p.members[group] == nil {
		p.members[group] = map[string]uint64{}
	}
	if p.groups[who] == nil {
		p.groups[who] = map[string]uint64{}
	}
	p.members[group][who], p.groups[who][group] = position, position
	p.memberships++
}

func (p *Projection) leave(group, who string) {
	if _, in := p.members[group][who]; !in {
		return
	}
	p.memberships--
	delete(p.members[group], who)
	delete(p.groups[who], group)
	for it := range p.of(group) { // what they have taken of it they do not see again
		if _, taken := it.taken[who]; taken && !p.concerns(who, it) {
			delete(it.taken, who)
			p.takes--
		}
	}
	if len(p.members[group]) == 0 {
		delete(p.members, group)
	}
	if len(p.groups[who]) == 0 {
		delete(p.groups, who)
	}
}

// Expire drops the messages that have expired.
func (p *Projection) Expire(now time.Time) {
	for it := p.expiries.expired(now); it != nil; it = p.expiries.expired(now) {
		p.drop(it)
	}
}

// GroupsOf returns the groups of a member, in order.
func (p *Projection) GroupsOf(who string) []string { return slices.Sorted(maps.Keys(p.groups[who])) }

// needs reports whether somebody still has to see a message. Members of a group see what was sent after they joined.
func (p *Projection) needs(who string, it *item, now time.Time) bool {
	_, taken := it.taken[who]
	return !taken && it.Alive(now) && p.concerns(who, it)
}

// concerns reports whether a message is for somebody.
func (p *Projection) concerns(who string, it *item) bool {
	return it.Addresses(who, func(group string) bool {
		since, in := p.members[group][who]
		return in && since < it.Position
	})
}

// waiting returns what somebody still has to see up to a position, in the order of arrival.
func (p *Projection) waiting(who string, upTo uint64, now time.Time) []*item {
	var found []*item
	look := func(address string) {
		for it := range p.of(address) {
			if it.Position <= upTo && p.needs(who, it, now) {
				found = append(found, it)
			}
		}
	}
	look(who)
	look(All)
	for group := range p.groups[who] {
		look(group)
	}
	byPosition := func(x, y *item) int { return cmp.Compare(x.Position, y.Position) }
	if !slices.IsSortedFunc(found, byPosition) {
		slices.SortFunc(found, byPosition)
	}
	return slices.CompactFunc(found, func(x, y *item) bool { return x == y }) // one that is addressed twice
}

// weakest returns the oldest of the least urgent messages of an address, nil when none is less urgent than priority.
func (p *Projection) weakest(address string, priority int) *item {
	if box := p.mailboxes[address]; box != nil {
		return box.weakest(priority)
	}
	return nil
}

// settled reports whether nobody needs a message once somebody has taken it. Of one to all nobody knows who will come: it is
// settled when so many have taken it. Members are looked at in no order, so that one who lacks it is soon found.
func (p *Projection) settled(it *item, by string, most int) bool {
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
		for member := range p.members[to] {
			if lacks(member) && p.concerns(member, it) {
				return false
			}
		}
	}
	return true
}
