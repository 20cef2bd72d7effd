package firebase

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// session is the state of a session in a Hub.
type session struct {
	ctx    context.Context //nolint:containedctx // the lifetime of the session, independent of calls
	cancel context.CancelFunc
	// subscriptions are the open subscriptions by id, and ended the ids of the most recently ended ones. idle is the
	// timer that closes an idle session. Hub.mu guards these fields.
	subscriptions map[string]*subscription
	ended         []string
	idle          *time.Timer
	// closeWithSubscription is set for a session that closes when its only subscription is cancelled.
	closeWithSubscription bool
	// budget is shared by all sessions.
	budget *budget
	// lastAck is the time of the last acknowledgement in nanoseconds since 1970, bytes the size of the queue.
	lastAck, bytes atomic.Int64

	mu sync.Mutex // guards the following fields
	// queue contains the unacknowledged messages in order. lastQueued is the number of the last message that was queued,
	// lastSent the number of the last message that next has returned.
	queue      []*message
	lastQueued uint64
	lastSent   uint64
	lastBatch  time.Time // time of the last batch
	closed     bool      // no more messages are accepted
	// small is the size of the small messages in the queue.
	small int
	// inTransit counts messages that were removed from the queue but may be in transit to the client.
	inTransit load
	// added is closed when a message is added to the queue.
	added chan struct{}
}

// subscription is one subscription of a session.
type subscription struct {
	request Subscription
	ctx     context.Context //nolint:containedctx // the lifetime of the subscription
	cancel  context.CancelFunc
	// reserved is the budget of the event that is being encoded. Only the goroutine that reads the events uses it.
	reserved int
	// lastValue is the newest queued message with an event of type Value; session.mu guards it.
	lastValue *message
}

// load counts the bytes of small and of large messages.
type load struct{ small, large int }

func (l *load) add(m *message) {
	if m.large() {
		l.large += len(m.text)
	} else {
		l.small += len(m.text)
	}
}

func newSession(ctx context.Context, budget *budget) *session {
	s := &session{subscriptions: map[string]*subscription{}, added: make(chan struct{}), budget: budget}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// recordEnded adds a subscription to ended, and drops the oldest ids beyond MaxEnded. Hub.mu must be held.
func (s *session) recordEnded(id string) {
	s.ended = append(slices.DeleteFunc(s.ended, func(old string) bool { return old == id }), id)
	if len(s.ended) > MaxEnded {
		s.ended = slices.Delete(s.ended, 0, len(s.ended)-MaxEnded)
	}
}

const (
	// minTurnSize is the estimated size from which an event waits for its turn. It is less than MaxSmall because the
	// encoded text is larger than the estimate.
	minTurnSize = MaxSmall / 4
	// maxEventSize is the maximum estimated size of an event. An event above it is certainly larger than MaxMessage,
	// because an estimate is less than 8 times too high: a number is estimated at 15 bytes and takes at least 2.
	maxEventSize = 8 * MaxMessage
)

// waitForTurn implements Turns for a subscription: it waits for budget and an encoding slot. Errors: QUOTA_EXCEEDED after
// the maximum wait; SIZE_LIMIT_EXCEEDED at once for an event that is certainly too large.
func (s *session) waitForTurn(ctx context.Context, sub *subscription, size int) (done func(), err error) {
	switch {
	case size < minTurnSize:
		return func() {}, nil
	case size > maxEventSize:
		return nil, tooLarge(size)
	}
	if err := s.budget.acquire(ctx, s, size); err != nil {
		return nil, err
	}
	sub.reserved = size
	return func() {
		s.budget.release(sub.reserved)
		sub.reserved = 0
	}, nil
}

// enqueue queues an event. An event of type Value replaces an earlier one of its subscription that is still queued and
// not sent yet. Errors: QUOTA_EXCEEDED when the queue or the budget is full, SIZE_LIMIT_EXCEEDED.
func (s *session) enqueue(sub *subscription, e Event) error {
	p := params{ID: sub.request.ID, Type: string(e.Type), Data: e.Data, Key: e.Key, At: timestamp(e.At)}
	switch e.Type {
	case Value, ChildChanged, DocumentModified:
		p.Previous = e.Previous
	case ChildAdded, ChildRemoved, DocumentAdded, DocumentDeleted:
	}
	if e.Type == Value {
		return s.enqueueValue(sub, p)
	}
	m, err := newMessage(sub, p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(m)
}

// enqueueValue queues a Value event, or replaces the pending one. It encodes the text without holding s.mu.
func (s *session) enqueueValue(sub *subscription, p params) error {
	for previous := p.Previous; ; {
		old := s.pendingValue(sub)
		if p.Previous = previous; old != nil {
			p.Previous = old.previous
		}
		m, err := newMessage(sub, p)
		if err != nil {
			return err
		}
		if done, err := s.replace(old, m); done || err != nil {
			return err
		}
	}
}

// pendingValue returns the message with a Value event of a subscription that is queued and not sent yet; nil if there is
// none.
func (s *session) pendingValue(sub *subscription) *message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub.lastValue == nil || sub.lastValue.number <= s.lastSent {
		return nil
	}
	return sub.lastValue
}

// replace replaces the pending message old with m, or queues m if old is nil. It returns false if old was sent in the
// meantime.
func (s *session) replace(old, m *message) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case old == nil:
		if err := s.add(m); err != nil {
			return false, err
		}
		m.sub.lastValue = m
		return true, nil
	case s.closed || m.sub.ctx.Err() != nil:
		return true, nil
	case old.number <= s.lastSent:
		return false, nil
	}
	if err := s.checkSpace(m, -len(old.text)); err != nil {
		return false, err
	}
	s.uncharge(old)
	s.charge(m)
	m.number = old.number
	*old = *m
	m.sub.lastValue = old
	return true, nil
}

// add queues a message if it fits. s.mu must be held.
func (s *session) add(m *message) error {
	if len(s.queue) >= MaxQueue {
		return s.behindError()
	}
	if err := s.checkSpace(m, 0); err != nil {
		return err
	}
	s.push(m)
	return nil
}

// checkSpace returns QUOTA_EXCEEDED when a message exceeds the limits of the session or of all sessions. change is added
// to the size of the queue: it is the negative size of a message that m replaces, or 0. s.mu must be held.
func (s *session) checkSpace(m *message, change int) error {
	size := len(m.text)
	switch {
	case int(s.bytes.Load())+change+size > MaxQueueBytes:
	case m.large() && (m.sub.reserved > 0 || s.budget.has(size)):
		return nil
	case !m.large() && int64(s.small+size) <= s.budget.smallLimit-s.budget.small.Load():
		return nil
	}
	return s.behindError()
}

// behindError returns QUOTA_EXCEEDED with the size of the queue. s.mu must be held.
func (s *session) behindError() error {
	return refusal.New(refusal.QuotaExceeded, "the client fell too far behind: %d events with %d bytes wait for it", len(s.queue), s.bytes.Load()).
		WithHint("subscribe again to less data, and read faster")
}

// enqueueLast queues the last message of a subscription. The limits do not apply to it.
func (s *session) enqueueLast(sub *subscription, p params) {
	m, err := newMessage(sub, p)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push(m)
}

// push queues a message without checking limits. It drops the message if the session or the subscription has ended.
// s.mu must be held.
func (s *session) push(m *message) {
	if s.closed || m.sub.ctx.Err() != nil {
		return
	}
	s.lastQueued++
	m.number = s.lastQueued
	s.queue = append(s.queue, m)
	s.charge(m)
	close(s.added)
	s.added = make(chan struct{})
}

// charge counts a queued message against the limits. A large message uses the budget that was reserved for it. s.mu
// must be held.
func (s *session) charge(m *message) {
	size := len(m.text)
	s.bytes.Add(int64(size))
	if !m.large() {
		s.small += size
		s.budget.small.Add(int64(size))
		return
	}
	s.budget.adjust(size - m.sub.reserved)
	m.sub.reserved = 0
}

// uncharge reverses charge. s.mu must be held.
func (s *session) uncharge(m *message) {
	s.unchargeSession(m)
	var freed load
	freed.add(m)
	s.release(freed)
}

// unchargeSession removes a message from the counts of the session, but not from the shared budget. s.mu must be
// held.
func (s *session) unchargeSession(m *message) {
	if m.sub.lastValue == m {
		m.sub.lastValue = nil
	}
	s.bytes.Add(-int64(len(m.text)))
	if !m.large() {
		s.small -= len(m.text)
	}
}

// release returns the bytes of messages to the shared budget.
func (s *session) release(l load) {
	s.budget.small.Add(-int64(l.small))
	if l.large > 0 {
		s.budget.adjust(-l.large)
	}
}

// clear removes all messages, and makes the session drop new ones. It returns the load of the messages that may be in
// transit to the client. The caller must release their budget.
func (s *session) clear() load {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.removeQueued(func(*message) bool { return true })
	inTransit := s.inTransit
	s.inTransit = load{}
	return inTransit
}

// withdraw removes the messages of a subscription.
func (s *session) withdraw(sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeQueued(func(m *message) bool { return m.sub == sub })
}

// removeQueued removes unacknowledged messages for which match returns true. s.mu must be held.
func (s *session) removeQueued(match func(*message) bool) {
	s.queue = slices.DeleteFunc(s.queue, func(m *message) bool {
		switch {
		case !match(m):
			return false
		case m.number <= s.lastSent:
			s.unchargeSession(m)
			s.inTransit.add(m)
		default:
			s.uncharge(m)
		}
		return true
	})
}

// next acknowledges all messages up to the number arrived. It then waits until there are other messages and Pace has
// passed since the last batch, and returns the next batch. No batch may be in transit to the client.
func (s *session) next(ctx context.Context, arrived uint64) ([]Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acknowledge(arrived)
	for {
		wait := time.Until(s.lastBatch.Add(Pace))
		if len(s.queue) > 0 && wait <= 0 {
			s.lastBatch = time.Now()
			return s.batch(), nil
		}
		if err := s.wait(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// acknowledge removes the messages up to the number arrived. s.mu must be held.
func (s *session) acknowledge(arrived uint64) {
	s.release(s.inTransit)
	s.inTransit, s.lastSent = load{}, arrived
	n := 0
	for ; n < len(s.queue) && s.queue[n].number <= arrived; n++ {
		s.uncharge(s.queue[n])
	}
	if n > 0 {
		s.queue = slices.Delete(s.queue, 0, n)
		s.lastAck.Store(time.Now().UnixNano())
	}
}

// wait waits until a message is added if the queue is empty, otherwise for the duration pace. s.mu must be held; it is
// released while waiting.
func (s *session) wait(ctx context.Context, pace time.Duration) error {
	added, due := s.added, (<-chan time.Time)(nil)
	if len(s.queue) > 0 {
		added, due = nil, time.After(pace)
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return fault.New(fault.NotFound, "the session is closed").WithField("session")
	case <-added:
	case <-due:
	}
	return nil
}

// batch returns the next messages of the queue, which must not be empty. s.mu must be held.
func (s *session) batch() []Message {
	var all []Message
	bytes := 0
	for _, m := range s.queue {
		if bytes += len(m.text); len(all) == MaxBatch || len(all) > 0 && bytes > MaxBatchBytes {
			break
		}
		all = append(all, Message{No: m.number, ID: m.sub.request.ID, Params: m.text, Last: m.last})
	}
	s.lastSent = all[len(all)-1].No
	return all
}
