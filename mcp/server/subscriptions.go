package server

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Subscriptions keeps what sessions hear of what tools have subscribed them to (tools.Spec.Session). A tool that
// subscribes is called like any other; the face only carries what follows from it.
type Subscriptions interface {
	// OpenSession begins a session, unless there is one of that name. A single one is for one subscription, and over when
	// that is cancelled.
	OpenSession(ctx context.Context, session string, single bool) error
	// CloseSession ends a session with all its subscriptions.
	CloseSession(ctx context.Context, session string) error
	// Messages waits a while for messages behind one that has arrived. NOT_FOUND when the session is over.
	Messages(ctx context.Context, session string, arrived uint64) ([]SubscriptionMessage, error)
	// Ended is the last message of a subscription of a session that is over although its client is there, as after a
	// restart of the node.
	Ended(subscription string) SubscriptionMessage
}

// SubscriptionMessage is a notification that a subscription gives a client.
type SubscriptionMessage struct {
	// No counts the messages of a session; Subscription is the id that the client has given.
	No           uint64
	Subscription string
	Method       string
	Params       json.RawMessage
	// Last is true for the message that ends the subscription.
	Last bool
}

// feedOf returns the feed of the session of a client, which begins with it; nil for a client that has no session.
func (b *subscriber) feedOf(ctx context.Context, c client) (*feed, error) {
	if b.cfg.Subscriptions == nil || c.session == nil || c.modern && c.note(noteHTTP) != "" || b.life.Err() != nil {
		return nil, nil //nolint:nilnil,nilerr // a client without a session has none, nor has one at the end
	}
	f, mine := b.feeds.get(b, c.session.ID())
	if mine { // who comes meanwhile waits as well, and for no lock
		life, end := b.clients.whileOpen(c.session)
		b.group.Go(func() {
			defer end()
			f.open(life)
		})
	}
	select {
	case <-ctx.Done():
		return nil, fault.From(ctx.Err())
	case <-f.opened:
	}
	if f.failed != nil {
		return nil, f.failed
	}
	return f, nil
}

// sessionFor returns the name of the session in which a tool acts, "" for a tool that acts in none, and for a client that
// has none. What the client hears of the subscription comes after the answer to this call (S3-043).
func (b *subscriber) sessionFor(ctx context.Context, c client, r *run, args json.RawMessage) (string, error) {
	if r.spec.Session == tools.NoSession {
		return "", nil
	}
	r.subscription = subscriptionOf(args)
	if c.sessionless {
		return b.listenerFor(ctx, c, r)
	}
	if c.modern && c.note(noteHTTP) != "" {
		return b.listenSessionOf(c, r)
	}
	f, err := b.feedOf(ctx, c)
	if f == nil || err != nil {
		return "", err
	}
	b.feeds.clearEnded(f.id, r.subscription)
	if reply := b.clients.replies.done(f.id, c.note(noteID)); reply != nil {
		f.sendAfter(r.subscription, reply)
	}
	return f.name, nil
}

func subscriptionOf(args json.RawMessage) string {
	var names struct {
		Subscription string `json:"subscriptionId"`
	}
	decode(args, &names)
	return names.Subscription
}

// sessionChanged is called when a call of a tool has acted on the session, before its answer goes out.
func (b *subscriber) sessionChanged(c client, r *run) {
	f := r.feed
	if f == nil {
		b.feeds.mu.Lock()
		f = b.feeds.byID[c.session.ID()]
		b.feeds.mu.Unlock()
	}
	if f != nil {
		f.refresh(r.subscription, r.spec.Session == tools.Subscribes)
	}
}

// subscriber brings clients what they have subscribed to with tools.
type subscriber struct {
	*core

	clients *connections
	// feeds bring it to sessions, behind the answers that clients.replies knows of.
	feeds feeds
	// listeners are the subscriptions of clients without a session.
	listeners listeners
}

// reportLost tells the client of a session that was opened again of the subscriptions that have ended meanwhile.
func (b *subscriber) reportLost(id string, subscriptions []string) {
	f := newFeed(b, id) // the node knows no such session
	for _, subscription := range subscriptions {
		f.active[subscription] = true
	}
	b.feeds.setLost(id, f)
	ctx, end := context.WithCancel(b.life)
	context.AfterFunc(b.clients.sessions.get(id).life, end)
	b.group.Go(func() {
		defer end()
		defer b.feeds.setLost(id, nil)
		f.endAll(ctx)
		if b.feeds.has(id) || ctx.Err() != nil { // what there is now is kept by whom it belongs to
			return
		}
		b.clients.updateOpen(ctx, id, func(r *record) { r.Listening = nil })
	})
}
