package firebase

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// The limits of a Hub.
const (
	// MaxSubscriptions is how many subscriptions one session has, MaxAll how many all have.
	MaxSubscriptions = 2_000
	MaxAll           = 20_000
	// Pace is the least time between two batches of messages to a session, and MaxBatch how many are in one: a session
	// hears of 3,200 events a second at most. Values that change more often than the pace are merged.
	Pace     = 20 * time.Millisecond
	MaxBatch = 64
	// MaxBatchBytes is how many bytes are in a batch; one message of any size always fits.
	MaxBatchBytes = 1 << 20
	// MaxQueue and MaxQueueBytes are what waits for one session at most. The subscription whose next event has no room ends.
	MaxQueue      = 10_000
	MaxQueueBytes = 16 << 20
	// MaxLarge are the bytes that wait for all sessions in messages above MaxSmall, what is being sent included. Without
	// room for its next event a subscription waits, MaxPatience at most, and then ends.
	MaxLarge    = 128 << 20
	MaxSmall    = 64 << 10
	MaxPatience = time.Minute
	// MaxWaiting are those in smaller messages. A session has no more of them than are left: however many sessions do not
	// read, there is room for one more that does.
	MaxWaiting = 64 << 20
	// MaxSending is how long a message may still be on its way to a client when its subscription has ended.
	MaxSending = 30 * time.Second
	// MaxMessage is how many bytes a message has; an event that is larger ends its subscription.
	MaxMessage = 4 << 20
	// MaxIdle is how long a session lives whose messages nobody asks for.
	MaxIdle = 10 * time.Minute
	// MaxEnded is how many subscriptions that have ended a session remembers, the last ones.
	MaxEnded = 100
)

// Closed is the event type of the last message of a subscription that the server has ended. Its data says why.
const Closed = "closed"

// HubConfig is the configuration of a Hub.
type HubConfig struct {
	// Realtime and Firestore are the databases.
	Realtime, Firestore Backend
	// Idle is how long a session lives whose messages nobody asks for; 0 means MaxIdle. Patience is how long a subscription
	// waits for room; 0 means MaxPatience.
	Idle, Patience time.Duration
	// Large and Small are how many bytes wait for all sessions in large and in small messages; 0 means MaxLarge and MaxWaiting.
	Large, Small int
	// Logger gets subscriptions that the hub has ended; nil discards it.
	Logger *slog.Logger
}

// Hub keeps the subscriptions of sessions and what the sessions have not heard yet. Whoever speaks to the clients opens a
// session, asks for its messages and closes it. It is safe for concurrent use.
type Hub struct {
	cfg  HubConfig
	life context.Context //nolint:containedctx // the life of the hub, which calls do not end
	end  context.CancelFunc
	// pumps are the goroutines that read events.
	pumps sync.WaitGroup
	room  *room

	mu       sync.Mutex // guards what follows
	sessions map[string]*session
	count    int // of subscriptions
	// leaving gives back what may be on its way to clients of sessions that have ended.
	leaving map[string][]func()
}

// Message is what a session hears.
type Message struct {
	// No counts the messages of a session.
	No uint64 `json:"no"`
	// ID is that of the subscription.
	ID string `json:"id"`
	// Params are those of the notification firebase.event.
	Params json.RawMessage `json:"params"`
	// Last is true for the message that ends the subscription.
	Last bool `json:"last,omitempty"`
}

// NewHub returns a hub without sessions.
func NewHub(cfg HubConfig) *Hub {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Idle, cfg.Patience = cmp.Or(cfg.Idle, MaxIdle), cmp.Or(cfg.Patience, MaxPatience)
	cfg.Large, cfg.Small = cmp.Or(cfg.Large, MaxLarge), cmp.Or(cfg.Small, MaxWaiting)
	h := &Hub{cfg: cfg, sessions: map[string]*session{}, leaving: map[string][]func(){}, room: newRoom(cfg)}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// Close ends all sessions.
func (h *Hub) Close() {
	h.mu.Lock()
	h.end()
	names := make([]string, 0, len(h.sessions))
	for name := range h.sessions {
		names = append(names, name)
	}
	h.mu.Unlock()
	for _, name := range names {
		h.CloseSession(name)
	}
	h.pumps.Wait()
}

// OpenSession begins a session, unless there is one of that name. A single one is for one subscription, and over when
// that is cancelled.
func (h *Hub) OpenSession(name string, single bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[name] != nil || h.life.Err() != nil {
		return
	}
	s := newSession(h.life, h.room)
	s.single = single
	s.idle = time.AfterFunc(h.cfg.Idle, func() {
		h.cfg.Logger.Warn("firebase_session_forgotten", slog.String("session", name))
		h.closeThis(name, s)
	})
	h.sessions[name] = s
}

// CloseSession ends a session and its subscriptions (S3-045): who asked for its messages sends none any more. It is no error
// when there is none.
func (h *Hub) CloseSession(name string) {
	h.mu.Lock()
	s := h.sessions[name]
	h.mu.Unlock()
	if s != nil {
		h.closeThis(name, s)
	}
	h.left(name)
}

// leave counts what may be on its way to the client of a session that has ended.
func (h *Hub) leave(name string, s *session, sending load) {
	if sending == (load{}) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	late := time.AfterFunc(MaxSending, func() { h.left(name) })
	h.leaving[name] = append(h.leaving[name], func() {
		late.Stop()
		s.free(sending)
	})
}

// left gives back what leave has counted.
func (h *Hub) left(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, free := range h.leaving[name] {
		free()
	}
	delete(h.leaving, name)
}

// closeThis ends a session. What was handed out counts until the session is closed by who sends it, or for MaxSending.
func (h *Hub) closeThis(name string, s *session) {
	h.mu.Lock()
	if h.sessions[name] == s {
		delete(h.sessions, name)
		h.count -= len(s.all)
		s.all = map[string]*subscribed{}
		s.idle.Stop()
	}
	h.mu.Unlock()
	s.end()
	h.leave(name, s, s.clear())
}

// of returns an open session.
func (h *Hub) of(name string) (*session, error) {
	s := h.sessions[name]
	if s == nil {
		return nil, fault.New(fault.NotFound, "the session is over, or another process has it").WithField("session").
			WithHint("open a new one and subscribe again")
	}
	return s, nil
}

// Subscribe implements Subscriptions.
func (h *Hub) Subscribe(ctx context.Context, name string, wanted Subscription) (Snapshot, error) {
	backend, err := Config{Realtime: h.cfg.Realtime, Firestore: h.cfg.Firestore}.backend(wanted.Database)
	if err != nil {
		return Snapshot{}, err
	}
	s, mine, err := h.reserve(name, wanted)
	if err != nil {
		return Snapshot{}, err
	}
	w, err := begin(ctx, s, mine, backend)
	if err != nil {
		h.drop(s, mine)
		return Snapshot{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.all[wanted.ID] != mine || h.life.Err() != nil {
		return Snapshot{}, fault.New(fault.NotFound, "the session has ended meanwhile")
	}
	h.pumps.Go(func() { h.pump(s, mine, w.Events) })
	return w.Initial, nil
}

// begin begins a watch that outlives ctx. When ctx ends before it has begun, it does not.
func begin(ctx context.Context, s *session, mine *subscribed, backend Backend) (Watching, error) {
	stop := context.AfterFunc(ctx, mine.end)
	life := WithTurns(mine.life, func(ctx context.Context, size int) (func(), error) { return s.turn(ctx, mine, size) })
	w, err := backend.Watch(life, mine.wanted.Path, mine.wanted.Events)
	if !stop() && err == nil {
		err = fault.From(context.Cause(ctx))
	}
	return w, err
}

// reserve takes the id of a subscription. Another attempt of the call that has taken it takes its place.
func (h *Hub) reserve(name string, wanted Subscription) (*session, *subscribed, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := h.of(name)
	if err != nil {
		return nil, nil, err
	}
	if old := s.all[wanted.ID]; old != nil {
		if old.wanted.Call != wanted.Call {
			return nil, nil, refusal.New(refusal.Conflict, "the session has a subscription %q already", wanted.ID).
				WithField("subscriptionId").WithHint("end it with firebase.unsubscribe, or choose another id")
		}
		h.forget(s, old)
	}
	if len(s.all) >= MaxSubscriptions || h.count >= MaxAll {
		return nil, nil, refusal.New(refusal.QuotaExceeded, "there are too many subscriptions: at most %d of a session, and %d of all", MaxSubscriptions, MaxAll).
			WithHint("end some with firebase.unsubscribe")
	}
	mine := &subscribed{wanted: wanted}
	mine.life, mine.end = context.WithCancel(s.life)
	s.all[wanted.ID] = mine
	h.count++
	return s, mine, nil
}

// Unsubscribe implements Subscriptions. What was not handed out of the subscription never is.
func (h *Hub) Unsubscribe(_ context.Context, name, id string) error {
	s, err := h.cancel(name, id)
	if err == nil && s.single {
		h.closeThis(name, s)
	}
	return err
}

func (h *Hub) cancel(name, id string) (*session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[name]
	switch {
	case s == nil || s.all[id] == nil && !slices.Contains(s.ended, id):
		return nil, refusal.New(refusal.NotFound, "the session has no such subscription").WithField("subscriptionId")
	case s.all[id] == nil:
		return nil, fault.New(fault.Gone, "the subscription has ended already").WithField("subscriptionId").
			WithHint("there is nothing left to cancel; firebase.subscribe begins a new one")
	}
	h.forget(s, s.all[id])
	s.noteEnd(id)
	return s, nil
}

// drop is forget without the lock.
func (h *Hub) drop(s *session, mine *subscribed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(s, mine)
}

// forget ends a subscription. The lock is held.
func (h *Hub) forget(s *session, mine *subscribed) {
	mine.end()
	if s.all[mine.wanted.ID] == mine {
		delete(s.all, mine.wanted.ID)
		h.count--
	}
	s.withdraw(mine)
}

// pump brings the events of a subscription to its session.
func (h *Hub) pump(s *session, mine *subscribed, events iter.Seq2[Event, error]) {
	defer mine.end()
	for e, err := range events {
		if err == nil {
			err = s.put(mine, e)
		}
		if mine.life.Err() != nil {
			return
		}
		if err != nil {
			h.closeSubscription(s, mine, fault.From(err))
			return
		}
	}
	if mine.life.Err() == nil {
		h.closeSubscription(s, mine, refusal.New(refusal.ConnectionError, "the database has ended the events").WithHint("subscribe again"))
	}
}

// closeSubscription ends a subscription that cannot go on, and says so behind its last event.
func (h *Hub) closeSubscription(s *session, mine *subscribed, why *fault.Error) {
	h.cfg.Logger.Warn("firebase_subscription_closed",
		slog.String("subscription", mine.wanted.ID), slog.String("path", mine.wanted.Path), slog.Any("error", why))
	s.last(mine, closing(mine.wanted.ID, why))
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.all[mine.wanted.ID] == mine { // its last message stays
		delete(s.all, mine.wanted.ID)
		h.count--
		s.noteEnd(mine.wanted.ID)
	}
}

// closing are the params of the last message of a subscription.
func closing(id string, why *fault.Error) params {
	return params{ID: id, Type: Closed, Data: map[string]any{"reason": why.Reason, "message": why.Message}, At: stamp(time.Now())}
}

// Ended is the last message of a subscription whose session the hub does not know any more.
func Ended(id string) Message {
	why := refusal.New(refusal.ConnectionError, "the node has forgotten the subscription; subscribe again")
	m, _ := newMessage(nil, closing(id, why)) // texts have a form in JSON
	return Message{ID: id, Params: m.text, Last: true}
}

// Next returns messages of a session behind one that has arrived, in their order; none when there are none for a time.
// Who asks again with the same number hears the same again. Errors: NOT_FOUND for a session that is over.
func (h *Hub) Next(ctx context.Context, name string, arrived uint64, wait time.Duration) ([]Message, error) {
	h.mu.Lock()
	s, err := h.of(name)
	if err == nil {
		s.idle.Reset(h.cfg.Idle)
	}
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	batch, err := s.next(ctx, arrived)
	if errors.Is(err, context.DeadlineExceeded) {
		return []Message{}, nil
	}
	return batch, err
}

// Count is the number of subscriptions of all sessions.
func (h *Hub) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}
