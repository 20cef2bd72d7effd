package server

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

const (
	// MaxListeners is the most subscriptions of one identity without a session (type listeners).
	MaxListeners = 2000
	// maxEnded is the most ended subscriptions that are remembered, of all identities together.
	maxEnded = 4096
)

// listeners are the subscriptions of clients without a session. Their events are sent in the response to a request. Each
// subscription has a separate session at the node, so that a slow client does not delay another.
type listeners struct {
	mu sync.Mutex
	// byKey are the names of the sessions at the node.
	byKey map[listenerKey]string
	// feeds are the feeds of those subscriptions that have one.
	feeds map[listenerKey]*feed
	// count is the number of subscriptions of each identity.
	count map[string]int
	// ended are the most recently ended subscriptions, the newest last.
	ended []listenerKey
}

// listenerKey identifies a subscription by its owner and its id.
type listenerKey struct{ who, subscription string }

// register registers a subscription. It returns CONFLICT if the identity already uses the id, and QUOTA_EXCEEDED if it has
// MaxListeners subscriptions. by may be nil.
func (l *listeners) register(key listenerKey, name string, by *feed) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey[key] != "" {
		return fault.New(fault.Conflict, "%s has a subscription %q already", key.who, key.subscription).WithField("subscriptionId").
			WithHint("end it with firebase.unsubscribe, or choose another id")
	}
	if l.count[key.who] >= MaxListeners {
		return fault.New(fault.QuotaExceeded, "%s has %d subscriptions, and that is the limit", key.who, MaxListeners).
			WithHint("end some with firebase.unsubscribe")
	}
	if l.byKey == nil {
		l.byKey, l.feeds, l.count = map[listenerKey]string{}, map[listenerKey]*feed{}, map[string]int{}
	}
	l.byKey[key] = name
	if by != nil {
		l.feeds[key] = by
	}
	l.count[key.who]++
	return nil
}

// find returns the name of the session of a subscription. It returns NOT_FOUND for an unknown subscription, and GONE for one
// that has ended.
func (l *listeners) find(key listenerKey) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.byKey[key] != "":
		return l.byKey[key], nil
	case slices.Contains(l.ended, key):
		return "", fault.New(fault.Gone, "the subscription has ended already").WithField("subscriptionId").
			WithHint("there is nothing left to cancel; firebase.subscribe begins a new one")
	default:
		return "", fault.New(fault.NotFound, "%s has no such subscription here", key.who).WithField("subscriptionId").
			WithHint("only the identity whose stream has its events can cancel it, at the node that it is open at")
	}
}

// feedOf returns the feed of a subscription, nil if its listener polls for the messages itself.
func (l *listeners) feedOf(key listenerKey) *feed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.feeds[key]
}

// unregister frees the id of a subscription. With begun, it records the subscription as ended.
func (l *listeners) unregister(key listenerKey, name string, begun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey[key] != name {
		return
	}
	delete(l.byKey, key)
	delete(l.feeds, key)
	if l.count[key.who]--; l.count[key.who] == 0 {
		delete(l.count, key.who)
	}
	if !begun {
		return
	}
	l.ended = append(slices.DeleteFunc(l.ended, func(old listenerKey) bool { return old == key }), key)
	if len(l.ended) > maxEnded {
		l.ended = slices.Delete(l.ended, 0, len(l.ended)-maxEnded)
	}
}

// Listener receives the notifications of a subscription made with ToolCaller.Listen. It is not safe for concurrent use.
type Listener struct {
	s    *subscriber
	name string
	// key is set once the subscription is registered, begun once the call has subscribed.
	key   listenerKey
	begun bool
	// arrived is the number of the last message received, last is set if that message was the final one.
	arrived uint64
	last    bool
}

// Next waits for JSON-RPC notifications and returns them in order. It returns no notifications after a while, or when ctx ends.
// The next call of Next confirms that the notifications have arrived. Next returns io.EOF when the subscription or the server
// has ended. A notification is the concatenation of its buffers; the caller must not change them, because they are shared.
func (l *Listener) Next(ctx context.Context) ([]net.Buffers, error) {
	if l.last {
		return nil, io.EOF
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(l.s.life, stop)()
	got, err := l.s.cfg.Stores.Subscriptions.Messages(asking, l.name, l.arrived)
	switch {
	case l.s.life.Err() != nil, fault.Has(err, fault.NotFound):
		return nil, io.EOF
	case ctx.Err() != nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	all := make([]net.Buffers, 0, len(got))
	for _, m := range got {
		all = append(all, notificationParts(m.Method, m.Params))
		l.arrived, l.last = m.No, m.Last
	}
	return all, nil
}

// Close ends the subscription. It is idempotent.
func (l *Listener) Close() {
	if l.key == (listenerKey{}) {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), closeTimeout)
	defer stop()
	_ = l.s.cfg.Stores.Subscriptions.CloseSession(ctx, l.name) // otherwise the node removes it after a while
	l.s.listeners.unregister(l.key, l.name, l.begun)
}

// listenerFor returns the name of the node's session for a call of a client without a session: for a call that subscribes, the
// new session of its listener; otherwise the session of the subscription to end. The name is empty if the client has no
// listener.
func (b *subscriber) listenerFor(ctx context.Context, c client, r *run) (string, error) {
	key := listenerKey{c.who.Name, r.subscription}
	l := c.listener
	switch {
	case b.cfg.Stores.Subscriptions == nil:
		return "", nil
	case r.spec.Session != tools.Subscribes:
		return b.listeners.find(key)
	case l == nil:
		return "", nil
	}
	if err := b.listeners.register(key, l.name, nil); err != nil {
		return "", err
	}
	l.key = key
	ctx, stop := context.WithTimeout(ctx, openWithin)
	defer stop()
	return l.name, b.cfg.Stores.Subscriptions.OpenSession(ctx, l.name, true)
}

// openWithin is how long a node may take to open a session.
const openWithin = 10 * time.Second

// listenerEnded is called when a call of a client without a session has ended a subscription, before the answer is sent. The
// id can be used again afterwards.
func (b *subscriber) listenerEnded(c client, r *run) {
	key := listenerKey{c.who.Name, r.subscription}
	if r.feed = b.listeners.feedOf(key); r.feed != nil { // the listening request continues
		r.feed.refresh(r.subscription, false)
		return
	}
	if name, err := b.listeners.find(key); err == nil {
		b.listeners.unregister(key, name, true)
	}
}
