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

// session is what a Hub knows of a session.
type session struct {
	life context.Context //nolint:containedctx // the life of the session, which calls do not end
	end  context.CancelFunc
	// all are the subscriptions by id, ended the ids of the last ones that have ended, and idle ends the session that nobody
	// asks for; the hub guards them.
	all   map[string]*subscribed
	ended []string
	idle  *time.Timer
	// single is true for a session that is over when a subscription of it is cancelled.
	single bool
	// room is what all sessions share.
	room *room
	// heard is when messages have arrived last, in nanoseconds, bytes are those of the queue.
	heard, bytes atomic.Int64

	mu sync.Mutex // guards what follows
	// queue are the messages that have not arrived, in their order; handed is the number of the last one that was handed out.
	queue  []*message
	handed uint64
	no     uint64
	paced  time.Time // when the last batch was handed out
	over   bool      // nothing is queued any more
	// small are the bytes of its small messages.
	small int
	// sent are messages that were taken back while they may be on their way to the client.
	sent load
	// filled is closed when there is more in the queue.
	filled chan struct{}
}

// subscribed is a subscription of a session.
type subscribed struct {
	wanted Subscription
	life   context.Context //nolint:containedctx // the life of the subscription
	end    context.CancelFunc
	// reserved is the room that the event has which is being made. The goroutine that reads the events has it.
	reserved int
	// value is the newest message of a value; the lock of the session guards it.
	value *message
}

// load is how many bytes messages have.
type load struct{ small, large int }

func (l *load) add(m *message) {
	if m.large() {
		l.large += len(m.text)
	} else {
		l.small += len(m.text)
	}
}

func newSession(ctx context.Context, room *room) *session {
	s := &session{all: map[string]*subscribed{}, filled: make(chan struct{}), room: room}
	s.life, s.end = context.WithCancel(ctx)
	return s
}

// noteEnd remembers that a subscription has ended. The lock of the hub is held.
func (s *session) noteEnd(id string) {
	s.ended = append(slices.DeleteFunc(s.ended, func(old string) bool { return old == id }), id)
	if len(s.ended) > MaxEnded {
		s.ended = slices.Delete(s.ended, 0, len(s.ended)-MaxEnded)
	}
}

const (
	// turnFrom is the size from which an event waits for its turn. It is less than MaxSmall since texts are larger than data.
	turnFrom = MaxSmall / 4
	// hopeless is a size from which an event certainly is no message: a number that counts as 15 bytes may have 2.
	hopeless = 8 * MaxMessage
)

// turn waits for the room of an event and the turn to make it: QUOTA_EXCEEDED when there is none for too long. An event that
// cannot be a message is refused before it takes memory.
func (s *session) turn(ctx context.Context, of *subscribed, size int) (done func(), err error) {
	switch {
	case size < turnFrom:
		return func() {}, nil
	case size > hopeless:
		return nil, tooLarge(size)
	}
	if err := s.room.enter(ctx, s, size); err != nil {
		return nil, err
	}
	of.reserved = size
	return func() {
		s.room.leave(of.reserved)
		of.reserved = 0
	}, nil
}

// put queues an event. A value takes the place of the one of the same subscription that was not handed out yet. Errors:
// QUOTA_EXCEEDED when there is no room, SIZE_LIMIT_EXCEEDED.
func (s *session) put(of *subscribed, e Event) error {
	p := params{ID: of.wanted.ID, Type: string(e.Type), Data: e.Data, Key: e.Key, At: stamp(e.At)}
	switch e.Type {
	case Value, ChildChanged, DocumentModified:
		p.Previous = e.Previous
	case ChildAdded, ChildRemoved, DocumentAdded, DocumentDeleted:
	}
	if e.Type == Value {
		return s.putValue(of, p)
	}
	m, err := newMessage(of, p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(m)
}

// putValue queues a value, or puts it in the place of one that still waits. The text is made without the lock.
func (s *session) putValue(of *subscribed, p params) error {
	for previous := p.Previous; ; {
		old := s.unheard(of)
		if p.Previous = previous; old != nil {
			p.Previous = old.previous
		}
		m, err := newMessage(of, p)
		if err != nil {
			return err
		}
		if done, err := s.replace(old, m); done || err != nil {
			return err
		}
	}
}

// unheard returns the message of a value that waits and was not handed out; nil if there is none.
func (s *session) unheard(of *subscribed) *message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.value == nil || of.value.no <= s.handed {
		return nil
	}
	return of.value
}

// replace puts a value in the place of another, nil for none. It reports false when that was handed out meanwhile.
func (s *session) replace(old, m *message) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case old == nil:
		if err := s.add(m); err != nil {
			return false, err
		}
		m.of.value = m
		return true, nil
	case s.over || m.of.life.Err() != nil:
		return true, nil
	case old.no <= s.handed:
		return false, nil
	}
	if err := s.fits(m, -len(old.text)); err != nil {
		return false, err
	}
	s.uncount(old)
	s.count(m)
	m.no = old.no
	*old = *m
	m.of.value = old
	return true, nil
}

// add queues a message if there is room. The lock is held.
func (s *session) add(m *message) error {
	if len(s.queue) >= MaxQueue {
		return s.behind()
	}
	if err := s.fits(m, 0); err != nil {
		return err
	}
	s.push(m)
	return nil
}

// fits refuses a message that has no room: in the session, or in what all sessions have. The lock is held.
func (s *session) fits(m *message, instead int) error {
	size := len(m.text)
	switch {
	case int(s.bytes.Load())+instead+size > MaxQueueBytes:
	case m.large() && (m.of.reserved > 0 || s.room.has(size)):
		return nil
	case !m.large() && int64(s.small+size) <= s.room.mostSmall-s.room.small.Load():
		return nil
	}
	return s.behind()
}

func (s *session) behind() error {
	return refusal.New(refusal.QuotaExceeded, "the client fell too far behind: %d events with %d bytes wait for it", len(s.queue), s.bytes.Load()).
		WithHint("subscribe again, to less, and read faster")
}

// last queues the last message of a subscription, for which there always is room.
func (s *session) last(of *subscribed, p params) {
	m, err := newMessage(of, p)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push(m)
}

// push queues a message. The lock is held.
func (s *session) push(m *message) {
	if s.over || m.of.life.Err() != nil {
		return
	}
	s.no++
	m.no = s.no
	s.queue = append(s.queue, m)
	s.count(m)
	close(s.filled)
	s.filled = make(chan struct{})
}

// count counts a message that waits; what was reserved for it is used. The lock is held.
func (s *session) count(m *message) {
	size := len(m.text)
	s.bytes.Add(int64(size))
	if !m.large() {
		s.small += size
		s.room.small.Add(int64(size))
		return
	}
	s.room.take(size - m.of.reserved)
	m.of.reserved = 0
}

// uncount is the end of count. The lock is held.
func (s *session) uncount(m *message) {
	s.forget(m)
	var one load
	one.add(m)
	s.free(one)
}

// forget counts a message for the session no more; it goes on to count for all. The lock is held.
func (s *session) forget(m *message) {
	if m.of.value == m {
		m.of.value = nil
	}
	s.bytes.Add(-int64(len(m.text)))
	if !m.large() {
		s.small -= len(m.text)
	}
}

// free gives back what messages have of what all sessions have.
func (s *session) free(l load) {
	s.room.small.Add(-int64(l.small))
	if l.large > 0 {
		s.room.take(-l.large)
	}
}

// clear forgets all messages, and takes no more. It returns those that may be on their way to the client, which count until
// they are freed.
func (s *session) clear() load {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.takeBack(func(*message) bool { return true })
	left := s.sent
	s.sent = load{}
	return left
}

// withdraw takes the messages of a subscription back.
func (s *session) withdraw(of *subscribed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeBack(func(m *message) bool { return m.of == of })
}

// takeBack takes messages out of the queue that have not arrived. The lock is held.
func (s *session) takeBack(which func(*message) bool) {
	s.queue = slices.DeleteFunc(s.queue, func(m *message) bool {
		switch {
		case !which(m):
			return false
		case m.no <= s.handed:
			s.forget(m)
			s.sent.add(m)
		default:
			s.uncount(m)
		}
		return true
	})
}

// next waits for messages behind one that has arrived, and for the pace. Who asks is not sending any.
func (s *session) next(ctx context.Context, arrived uint64) ([]Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrive(arrived)
	for {
		wait := time.Until(s.paced.Add(Pace))
		if len(s.queue) > 0 && wait <= 0 {
			s.paced = time.Now()
			return s.batch(), nil
		}
		if err := s.rest(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// arrive takes messages out of the queue that have arrived. The lock is held.
func (s *session) arrive(arrived uint64) {
	s.free(s.sent)
	s.sent, s.handed = load{}, arrived
	n := 0
	for ; n < len(s.queue) && s.queue[n].no <= arrived; n++ {
		s.uncount(s.queue[n])
	}
	if n > 0 {
		s.queue = slices.Delete(s.queue, 0, n)
		s.heard.Store(time.Now().UnixNano())
	}
}

// rest waits until there is something in the queue, or for the pace when there is. The lock is held before and after.
func (s *session) rest(ctx context.Context, pace time.Duration) error {
	filled, due := s.filled, (<-chan time.Time)(nil)
	if len(s.queue) > 0 {
		filled, due = nil, time.After(pace)
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.life.Done():
		return fault.New(fault.NotFound, "the session is over").WithField("session")
	case <-filled:
	case <-due:
	}
	return nil
}

// batch hands messages out, of which there are some. The lock is held.
func (s *session) batch() []Message {
	var all []Message
	bytes := 0
	for _, m := range s.queue {
		if bytes += len(m.text); len(all) == MaxBatch || len(all) > 0 && bytes > MaxBatchBytes {
			break
		}
		all = append(all, Message{No: m.no, ID: m.of.wanted.ID, Params: m.text, Last: m.last})
	}
	s.handed = all[len(all)-1].No
	return all
}
