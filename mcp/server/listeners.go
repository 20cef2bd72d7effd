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
	// MaxListeners is how many subscriptions an identity has whose events come as the answers to requests of theirs.
	MaxListeners = 2000
	// maxEnded is how many such subscriptions are remembered that have ended, of all identities.
	maxEnded = 4096
)

// listeners are the subscriptions of clients without a session, whose events come as the answer to a request. Each is a
// session of its own at the node, so that one that does not read holds up no other; an identity finds its own by their ids.
type listeners struct {
	mu sync.Mutex
	// byKey has the names of their sessions, feeds those that a feed brings, count how many an identity has, ended the last
	// ones that have ended.
	byKey map[listenerKey]string
	feeds map[listenerKey]*feed
	count map[string]int
	ended []listenerKey
}

// listenerKey names a subscription by who has it and its id.
type listenerKey struct{ who, subscription string }

// register takes the id of a subscription: CONFLICT when the identity has one of that id, QUOTA_EXCEEDED.
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

// find returns the session of a subscription: NOT_FOUND for one that nobody knows, GONE for one that has ended.
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

// feedOf returns what brings the messages of a subscription, nil when its listener asks for them itself.
func (l *listeners) feedOf(key listenerKey) *feed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.feeds[key]
}

// unregister gives the id of a subscription back. One that had begun is remembered.
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

// Listener hears what follows from a call that subscribes. It is not safe for concurrent use.
type Listener struct {
	s    *subscriber
	name string
	// key is set when the node was asked for a session, begun when the call has subscribed it.
	key   listenerKey
	begun bool
	// arrived is the number of the last message that was taken, last is true when it was the last of all.
	arrived uint64
	last    bool
}

// Next waits for notifications of JSON-RPC, in their order; none when there are none for a time, or when ctx ends. Asking
// again says that the last ones have arrived. io.EOF when the subscription has ended, or the server.
// Each is in parts, one behind the other, of which the node has the large one: it is not to be changed.
func (l *Listener) Next(ctx context.Context) ([]net.Buffers, error) {
	if l.last {
		return nil, io.EOF
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(l.s.life, stop)()
	got, err := l.s.cfg.Subscriptions.Messages(asking, l.name, l.arrived)
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
	ctx, stop := context.WithTimeout(context.Background(), feedAgain)
	defer stop()
	_ = l.s.cfg.Subscriptions.CloseSession(ctx, l.name) // else the node forgets it by itself
	l.s.listeners.unregister(l.key, l.name, l.begun)
}

// listenerFor returns the name of the session in which a client without one acts: that of its listener, or the one of the
// subscription that it wants to end. Empty when there is none.
func (b *subscriber) listenerFor(ctx context.Context, c client, r *run) (string, error) {
	key := listenerKey{c.who.Name, r.subscription}
	l := c.listener
	switch {
	case b.cfg.Subscriptions == nil:
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
	return l.name, b.cfg.Subscriptions.OpenSession(ctx, l.name, true)
}

// openWithin bounds how long a node takes to open a session.
const openWithin = 10 * time.Second

// listenerEnded is called when a call of a client without a session has ended a subscription, before its answer goes out:
// its id is free again from then on.
func (b *subscriber) listenerEnded(c client, r *run) {
	key := listenerKey{c.who.Name, r.subscription}
	if r.feed = b.listeners.feedOf(key); r.feed != nil { // the request that listens goes on
		r.feed.refresh(r.subscription, false)
		return
	}
	if name, err := b.listeners.find(key); err == nil {
		b.listeners.unregister(key, name, true)
	}
}
