package messages

import (
	"cmp"
	"container/heap"
	"iter"
	"maps"
	"slices"
	"time"
)

// Projection is the fold of the records: the heads of the live messages, their acknowledgements, and the members of
// groups. It reads no clock. It is not safe for concurrent use.
type Projection struct {
	items map[string]*item
	// mailboxes contains the pending messages of each address. The mailbox of an agent or user does not contain the
	// messages that it has acknowledged. expiries contains all messages.
	mailboxes map[string]*mailbox
	expiries  expiryHeap
	// members maps groups and members to the position at which the member joined; groups maps members and groups to the
	// same positions.
	members map[string]map[string]uint64
	groups  map[string]map[string]uint64

	bytes, memberships int
	// acks counts the stored acknowledgements of live messages.
	acks int
}

// item is the head of a message.
type item struct {
	Message

	size int
	// expiryIndex is the index in the heap of expiries.
	expiryIndex int
	// ackedBy are the recipients that have acknowledged it.
	ackedBy map[string]struct{}
}

// NewProjection returns an empty projection.
func NewProjection() *Projection {
	return &Projection{
		items: map[string]*item{}, mailboxes: map[string]*mailbox{},
		members: map[string]map[string]uint64{}, groups: map[string]map[string]uint64{},
	}
}

// Apply applies a record. Records with the same key must be applied in order. Apply returns the new message, or nil if
// the record adds none.
func (p *Projection) Apply(position uint64, r Record) *Message { return p.apply(position, r, r.size()) }

// size returns the size of a new message, or 0 for any other record. It is slow, because it encodes the message.
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
	case RecipientDone:
		if it := p.items[r.ID]; it != nil {
			p.ack(r.Who, it)
		}
	case Joined:
		p.join(position, r.Group, r.Who)
	case Left:
		p.leave(r.Group, r.Who)
	}
	return nil
}

// ack records an acknowledgement. It does not store an acknowledgement by an identity that does not receive the
// message.
func (p *Projection) ack(who string, it *item) {
	if _, acked := it.ackedBy[who]; !acked && p.isFor(who, it) {
		it.ackedBy[who] = struct{}{}
		p.acks++
	}
	p.removeFromMailbox(who, it)
}

func (p *Projection) add(position uint64, m *Message, size int) *Message {
	if p.items[m.ID] != nil {
		return nil
	}
	it := &item{Message: *m, size: size, ackedBy: map[string]struct{}{}}
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
	p.acks -= len(it.ackedBy)
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

// queued returns the number of pending messages of an address.
func (p *Projection) queued(address string) int {
	if box := p.mailboxes[address]; box != nil {
		return box.count
	}
	return 0
}

// messagesOf yields the messages of an address.
func (p *Projection) messagesOf(address string) iter.Seq[*item] {
	if box := p.mailboxes[address]; box != nil {
		return box.all()
	}
	return func(func(*item) bool) {}
}

func (p *Projection) join(position uint64, group, who string) {
	if _, in := p.members[group][who]; in { // the first record counts
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
	for it := range p.messagesOf(group) { // drop acks that are no longer needed: the member does not receive the group's messages
		if _, acked := it.ackedBy[who]; acked && !p.isFor(who, it) {
			delete(it.ackedBy, who)
			p.acks--
		}
	}
	if len(p.members[group]) == 0 {
		delete(p.members, group)
	}
	if len(p.groups[who]) == 0 {
		delete(p.groups, who)
	}
}

// Expire removes the messages that have expired at now.
func (p *Projection) Expire(now time.Time) {
	for it := p.expiries.expired(now); it != nil; it = p.expiries.expired(now) {
		p.drop(it)
	}
}

// GroupsOf returns the sorted groups of a member.
func (p *Projection) GroupsOf(who string) []string { return slices.Sorted(maps.Keys(p.groups[who])) }

// pendingFor reports whether a message is for who, unexpired and not acknowledged. Members of a group receive messages
// that were sent after they joined.
func (p *Projection) pendingFor(who string, it *item, now time.Time) bool {
	_, acked := it.ackedBy[who]
	return !acked && it.Alive(now) && p.isFor(who, it)
}

// isFor reports whether a message is addressed to who, directly, through a group, or through all.
func (p *Projection) isFor(who string, it *item) bool {
	return it.IsFor(who, func(group string) bool {
		since, in := p.members[group][who]
		return in && since < it.Position
	})
}

// waiting returns the pending messages of who up to a position, in the order of arrival.
func (p *Projection) waiting(who string, upTo uint64, now time.Time) []*item {
	var found []*item
	collect := func(address string) {
		for it := range p.messagesOf(address) {
			if it.Position <= upTo && p.pendingFor(who, it, now) {
				found = append(found, it)
			}
		}
	}
	collect(who)
	collect(All)
	for group := range p.groups[who] {
		collect(group)
	}
	byPosition := func(x, y *item) int { return cmp.Compare(x.Position, y.Position) }
	if !slices.IsSortedFunc(found, byPosition) {
		slices.SortFunc(found, byPosition)
	}
	return slices.CompactFunc(found, func(x, y *item) bool { return x == y }) // a message may be addressed to who several times
}

// leastUrgent returns the oldest of the least urgent messages of an address, or nil if none is less urgent than
// priority.
func (p *Projection) leastUrgent(address string, priority int) *item {
	if box := p.mailboxes[address]; box != nil {
		return box.leastUrgent(priority)
	}
	return nil
}

// everybodyDone reports whether a message would be pending for nobody after an acknowledgement by the identity by. The
// recipients of a message to all are unknown, so such a message is done after limit acknowledgements. Members are
// checked in random map order, so that a member with a pending message is found soon.
func (p *Projection) everybodyDone(it *item, by string, limit int) bool {
	lacks := func(who string) bool {
		_, acked := it.ackedBy[who]
		return who != by && !acked
	}
	for _, to := range it.To {
		switch {
		case to == All && len(it.ackedBy)+1 < limit:
			return false
		case to == All:
		case !IsGroup(to) && lacks(to):
			return false
		}
		for member := range p.members[to] {
			if lacks(member) && p.isFor(member, it) {
				return false
			}
		}
	}
	return true
}
