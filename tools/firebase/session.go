package firebase

import (
	"context"
	"encoding/json"
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

	mu sync.Mutex // guards what follows
	// queue are the messages that have not arrived, in their order; those before handed were handed out.
	queue  []*message
	handed int
	bytes  int
	no     uint64
	paced  time.Time // when the last batch was handed out
	over   bool      // nothing is queued any more
	// filled is closed when there is more in the queue.
	filled chan struct{}
	// waiting counts the bytes of all sessions.
	waiting *atomic.Int64
}

// subscribed is a subscription of a session.
type subscribed struct {
	wanted Subscription
	life   context.Context //nolint:containedctx // the life of the subscription
	end    context.CancelFunc
}

// message is a message that waits.
type message struct {
	of     *subscribed
	no     uint64
	params params
	text   json.RawMessage
}

// params are those of firebase.event (S3-042).
type params struct {
	ID       string `json:"subscriptionId"`
	Type     string `json:"eventType"`
	Data     any    `json:"data"`
	Previous any    `json:"previousData,omitempty"`
	Key      string `json:"key,omitempty"`
	At       string `json:"timestamp"`
}

func newSession(ctx context.Context, waiting *atomic.Int64) *session {
	s := &session{all: map[string]*subscribed{}, filled: make(chan struct{}), waiting: waiting}
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

// put queues an event. A value takes the place of the one of the same subscription that was not handed out yet. Errors:
// QUOTA_EXCEEDED when there is no room, SIZE_LIMIT_EXCEEDED.
func (s *session) put(of *subscribed, e Event) error {
	m := &message{of: of, params: params{ID: of.wanted.ID, Type: string(e.Type), Data: e.Data, Key: e.Key, At: stamp(e.At)}}
	switch e.Type {
	case Value, ChildChanged, DocumentModified:
		m.params.Previous = e.Previous
	case ChildAdded, ChildRemoved, DocumentAdded, DocumentDeleted:
	}
	if e.Type == Value && s.merge(m) {
		return nil
	}
	return s.add(m)
}

// merge changes the message of a value that waits to the newest one, and reports whether there is one.
func (s *session) merge(m *message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.queue[s.handed:] {
		if old.of != m.of || old.params.Type != m.params.Type {
			continue
		}
		m.params.Previous, m.no = old.params.Previous, old.no
		if m.encode() != nil {
			return false
		}
		s.count(len(m.text) - len(old.text))
		*old = *m
		return true
	}
	return false
}

// encode makes the text of a message; SIZE_LIMIT_EXCEEDED when that is too long.
func (m *message) encode() error {
	text, err := encoded(m.params)
	if err == nil && len(text) > MaxMessage {
		err = refusal.New(refusal.SizeLimitExceeded, "an event has %d bytes, at most %d", len(text), MaxMessage).
			WithHint("subscribe to less")
	}
	m.text = text
	return err
}

// add queues a message if there is room.
func (s *session) add(m *message) error {
	if err := m.encode(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	size := len(m.text)
	if len(s.queue) >= MaxQueue || s.bytes+size > MaxQueueBytes || s.waiting.Load()+int64(size) > MaxWaiting {
		return refusal.New(refusal.QuotaExceeded, "the client fell too far behind: %d events with %d bytes wait for it", len(s.queue), s.bytes).
			WithHint("subscribe again, to less, and read faster")
	}
	s.push(m)
	return nil
}

// last queues the last message of a subscription, for which there always is room.
func (s *session) last(m *message) {
	if m.encode() != nil {
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
	s.count(len(m.text))
	close(s.filled)
	s.filled = make(chan struct{})
}

// count counts bytes that wait. The lock is held.
func (s *session) count(bytes int) {
	s.bytes += bytes
	s.waiting.Add(int64(bytes))
}

// clear forgets all messages, and takes no more.
func (s *session) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.keep(func(*message) bool { return false })
}

// withdraw takes the messages of a subscription back.
func (s *session) withdraw(of *subscribed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(func(m *message) bool { return m.of != of })
}

// keep takes messages out of the queue. The lock is held.
func (s *session) keep(wanted func(*message) bool) {
	kept, handed := s.queue[:0], 0
	for i, m := range s.queue {
		if !wanted(m) {
			s.count(-len(m.text))
			continue
		}
		if i < s.handed {
			handed++
		}
		kept = append(kept, m)
	}
	clear(s.queue[len(kept):])
	s.queue, s.handed = kept, handed
}

// next waits for messages behind one that has arrived, and for the pace.
func (s *session) next(ctx context.Context, arrived uint64) ([]Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(func(m *message) bool { return m.no > arrived })
	s.handed = 0
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

// batch hands messages out. The lock is held.
func (s *session) batch() []Message {
	var all []Message
	bytes := 0
	for _, m := range s.queue {
		if bytes += len(m.text); len(all) == MaxBatch || len(all) > 0 && bytes > MaxBatchBytes {
			break
		}
		all = append(all, Message{No: m.no, ID: m.params.ID, Params: m.text, Last: m.params.Type == Closed})
	}
	s.handed = len(all)
	return all
}
