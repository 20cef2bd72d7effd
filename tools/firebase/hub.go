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
	// MaxSubscriptions limits the subscriptions of one session, MaxAll those of all sessions.
	MaxSubscriptions = 2_000
	MaxAll           = 20_000
	// Pace is the minimum interval between two batches of messages to a session, and MaxBatch the maximum number of
	// messages in a batch: a session receives at most 3,200 events a second. Value events that occur faster are merged.
	Pace     = 20 * time.Millisecond
	MaxBatch = 64
	// MaxBatchBytes limits the bytes in a batch; a single message may exceed it.
	MaxBatchBytes = 1 << 20
	// MaxQueue and MaxQueueBytes limit the messages that wait for one session. A subscription ends when its next
	// event exceeds these limits.
	MaxQueue      = 10_000
	MaxQueueBytes = 16 << 20
	// MaxLarge limits the bytes of messages larger than MaxSmall that wait for all sessions or are being sent. A
	// subscription waits for space for its next event for at most MaxPatience, and then ends.
	MaxLarge    = 96 << 20
	MaxSmall    = 64 << 10
	MaxPatience = time.Minute
	// MaxWaiting limits the bytes of messages up to MaxSmall that wait for all sessions. One session may use at most as
	// many bytes as are still free, so that there is always space for one more session that reads its messages.
	MaxWaiting = 64 << 20
	// MaxSending is how long a message may still be in transit to a client after its subscription has ended.
	MaxSending = 30 * time.Second
	// MaxMessage is the maximum size of a message in bytes. A larger event ends its subscription.
	MaxMessage = 4 << 20
	// MaxIdle is how long a session exists without a request for its messages.
	MaxIdle = 10 * time.Minute
	// MaxEnded is how many of the most recently ended subscriptions a session remembers.
	MaxEnded = 100
)

// Closed is the event type of the last message of a subscription that the server ended. Its data contains the reason.
const Closed = "closed"

// HubConfig configures a Hub.
type HubConfig struct {
	// Realtime and Firestore are the databases.
	Realtime, Firestore Backend
	// Idle is how long a session exists without a request for its messages; 0 means MaxIdle. Patience is how long a
	// subscription waits for space; 0 means MaxPatience.
	Idle, Patience time.Duration
	// Large and Small limit the bytes of large and of small messages that wait for all sessions; 0 means MaxLarge and
	// MaxWaiting.
	Large, Small int
	// Logger logs subscriptions that the hub ended; nil discards the records.
	Logger *slog.Logger
}

// Hub stores the subscriptions of sessions and the messages that the sessions have not acknowledged. The server of an MCP
// client opens a session for the client, fetches the messages of the session with Next, and closes the session. A Hub
// is safe for concurrent use.
type Hub struct {
	cfg    HubConfig
	ctx    context.Context //nolint:containedctx // the lifetime of the hub, independent of calls
	cancel context.CancelFunc
	// readers are the goroutines that read events.
	readers sync.WaitGroup
	budget  *budget

	mu       sync.Mutex // guards the following fields
	sessions map[string]*session
	count    int // number of subscriptions
	// draining contains, by session, functions that release budget. It is the budget of messages that may still be in
	// transit to clients of closed sessions.
	draining map[string][]func()
}

// Message is a message to a session.
type Message struct {
	// No is the sequence number of the message in its session.
	No uint64 `json:"no"`
	// ID is the id of the subscription.
	ID string `json:"id"`
	// Params are the parameters of the notification firebase.event.
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
	h := &Hub{cfg: cfg, sessions: map[string]*session{}, draining: map[string][]func(){}, budget: newBudget(cfg)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Close closes all sessions and waits for their goroutines.
func (h *Hub) Close() {
	h.mu.Lock()
	h.cancel()
	names := make([]string, 0, len(h.sessions))
	for name := range h.sessions {
		names = append(names, name)
	}
	h.mu.Unlock()
	for _, name := range names {
		h.CloseSession(name)
	}
	h.readers.Wait()
}

// OpenSession opens a session, unless a session with the name exists. If closeWithSubscription is set, the session is for
// one subscription, and closes when the subscription is cancelled.
func (h *Hub) OpenSession(name string, closeWithSubscription bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[name] != nil || h.ctx.Err() != nil {
		return
	}
	s := newSession(h.ctx, h.budget)
	s.closeWithSubscription = closeWithSubscription
	s.idle = time.AfterFunc(h.cfg.Idle, func() {
		h.cfg.Logger.Warn("firebase_session_forgotten", slog.String("session", name))
		h.endSession(name, s)
	})
	h.sessions[name] = s
}

// CloseSession closes a session and its subscriptions (S3-045). The caller must have stopped sending messages of the
// session. CloseSession does nothing if there is no such session.
func (h *Hub) CloseSession(name string) {
	h.mu.Lock()
	s := h.sessions[name]
	h.mu.Unlock()
	if s != nil {
		h.endSession(name, s)
	}
	h.drained(name)
}

// drain keeps the budget of messages that may be in transit to the client of a closed session, for at most
// MaxSending.
func (h *Hub) drain(name string, s *session, inTransit load) {
	if inTransit == (load{}) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	timer := time.AfterFunc(MaxSending, func() { h.drained(name) })
	h.draining[name] = append(h.draining[name], func() {
		timer.Stop()
		s.release(inTransit)
	})
}

// drained releases the budget that drain kept.
func (h *Hub) drained(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, free := range h.draining[name] {
		free()
	}
	delete(h.draining, name)
}

// endSession closes a session. Sent messages keep their budget until CloseSession, or for at most MaxSending.
func (h *Hub) endSession(name string, s *session) {
	h.mu.Lock()
	if h.sessions[name] == s {
		delete(h.sessions, name)
		h.count -= len(s.subscriptions)
		s.subscriptions = map[string]*subscription{}
		s.idle.Stop()
	}
	h.mu.Unlock()
	s.cancel()
	h.drain(name, s, s.clear())
}

// lookup returns an open session. h.mu must be held.
func (h *Hub) lookup(name string) (*session, error) {
	s := h.sessions[name]
	if s == nil {
		return nil, fault.New(fault.NotFound, "the session is closed, or belongs to another process").WithField("session").
			WithHint("open a new session and subscribe again")
	}
	return s, nil
}

// Subscribe implements Subscriptions.
func (h *Hub) Subscribe(ctx context.Context, name string, request Subscription) (Snapshot, error) {
	backend, err := Config{Realtime: h.cfg.Realtime, Firestore: h.cfg.Firestore}.backend(request.Database)
	if err != nil {
		return Snapshot{}, err
	}
	s, sub, err := h.reserve(name, request)
	if err != nil {
		return Snapshot{}, err
	}
	w, err := startWatch(ctx, s, sub, backend)
	if err != nil {
		h.remove(s, sub)
		return Snapshot{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.subscriptions[request.ID] != sub || h.ctx.Err() != nil {
		return Snapshot{}, fault.New(fault.NotFound, "the session has ended meanwhile")
	}
	h.readers.Go(func() { h.forward(s, sub, w.Events) })
	return w.Initial, nil
}

// startWatch starts a watch whose lifetime is that of the subscription, not of ctx. It fails when ctx ends before the
// watch has started.
func startWatch(ctx context.Context, s *session, sub *subscription, backend Backend) (Watching, error) {
	stop := context.AfterFunc(ctx, sub.cancel)
	watchCtx := WithTurns(sub.ctx, func(ctx context.Context, size int) (func(), error) { return s.waitForTurn(ctx, sub, size) })
	w, err := backend.Watch(watchCtx, sub.request.Path, sub.request.Events)
	if !stop() && err == nil {
		err = fault.From(context.Cause(ctx))
	}
	return w, err
}

// reserve registers a subscription under its id. A repeated attempt of the same call replaces the earlier registration.
func (h *Hub) reserve(name string, request Subscription) (*session, *subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := h.lookup(name)
	if err != nil {
		return nil, nil, err
	}
	if old := s.subscriptions[request.ID]; old != nil {
		if old.request.Call != request.Call {
			return nil, nil, refusal.New(refusal.Conflict, "the session has a subscription %q already", request.ID).
				WithField("subscriptionId").WithHint("end it with firebase.unsubscribe, or choose another id")
		}
		h.removeLocked(s, old)
	}
	if len(s.subscriptions) >= MaxSubscriptions || h.count >= MaxAll {
		return nil, nil, refusal.New(refusal.QuotaExceeded, "there are too many subscriptions: at most %d of a session, and %d of all", MaxSubscriptions, MaxAll).
			WithHint("end some with firebase.unsubscribe")
	}
	sub := &subscription{request: request}
	sub.ctx, sub.cancel = context.WithCancel(s.ctx)
	s.subscriptions[request.ID] = sub
	h.count++
	return s, sub, nil
}

// Unsubscribe implements Subscriptions. It drops messages of the subscription that were not sent yet.
func (h *Hub) Unsubscribe(_ context.Context, name, id string) error {
	s, err := h.cancelSubscription(name, id)
	if err == nil && s.closeWithSubscription {
		h.endSession(name, s)
	}
	return err
}

// cancelSubscription ends a subscription and returns its session.
func (h *Hub) cancelSubscription(name, id string) (*session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[name]
	switch {
	case s == nil || s.subscriptions[id] == nil && !slices.Contains(s.ended, id):
		return nil, refusal.New(refusal.NotFound, "the session has no such subscription").WithField("subscriptionId")
	case s.subscriptions[id] == nil:
		return nil, fault.New(fault.Gone, "the subscription has ended already").WithField("subscriptionId").
			WithHint("there is nothing left to cancel; firebase.subscribe begins a new one")
	}
	h.removeLocked(s, s.subscriptions[id])
	s.recordEnded(id)
	return s, nil
}

// remove ends a subscription and drops its messages.
func (h *Hub) remove(s *session, sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(s, sub)
}

// removeLocked is like remove; h.mu must be held.
func (h *Hub) removeLocked(s *session, sub *subscription) {
	sub.cancel()
	if s.subscriptions[sub.request.ID] == sub {
		delete(s.subscriptions, sub.request.ID)
		h.count--
	}
	s.withdraw(sub)
}

// forward passes the events of a subscription to its session.
func (h *Hub) forward(s *session, sub *subscription, events iter.Seq2[Event, error]) {
	defer sub.cancel()
	for e, err := range events {
		if err == nil {
			err = s.enqueue(sub, e)
		}
		if sub.ctx.Err() != nil {
			return
		}
		if err != nil {
			h.endSubscription(s, sub, fault.From(err))
			return
		}
	}
	if sub.ctx.Err() == nil {
		h.endSubscription(s, sub, refusal.New(refusal.ConnectionError, "the database has ended the events").WithHint("subscribe again"))
	}
}

// endSubscription ends a subscription that cannot continue, and queues the reason as its last message.
func (h *Hub) endSubscription(s *session, sub *subscription, why *fault.Error) {
	h.cfg.Logger.Warn("firebase_subscription_closed",
		slog.String("subscription", sub.request.ID), slog.String("path", sub.request.Path), slog.Any("error", why))
	s.enqueueLast(sub, closedParams(sub.request.ID, why))
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.subscriptions[sub.request.ID] == sub { // without removeLocked, so that the last message remains queued
		delete(s.subscriptions, sub.request.ID)
		h.count--
		s.recordEnded(sub.request.ID)
	}
}

// closedParams returns the parameters of the last message of a subscription.
func closedParams(id string, why *fault.Error) params {
	return params{ID: id, Type: Closed, Data: map[string]any{"reason": why.Reason, "message": why.Message}, At: timestamp(time.Now())}
}

// Ended returns the last message for a subscription that the hub does not know, such as after a restart of the node.
func Ended(id string) Message {
	why := refusal.New(refusal.ConnectionError, "the node has forgotten the subscription; subscribe again")
	m, _ := newMessage(nil, closedParams(id, why)) // strings can always be encoded
	return Message{ID: id, Params: m.text, Last: true}
}

// Next acknowledges the messages of a session up to the number arrived. It returns the next messages in order, or an empty
// slice if there are none within wait. A repeated call with the same number returns the same messages again. Errors:
// NOT_FOUND for a closed session.
func (h *Hub) Next(ctx context.Context, name string, arrived uint64, wait time.Duration) ([]Message, error) {
	h.mu.Lock()
	s, err := h.lookup(name)
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

// Count returns the number of subscriptions of all sessions.
func (h *Hub) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}
