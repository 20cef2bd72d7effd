package server

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Subscriptions stores the messages of subscriptions that tools have made for sessions (tools.Spec.Session). A tool that
// subscribes is called like any tool; the server only delivers the messages of the subscription.
type Subscriptions interface {
	// OpenSession opens a session, unless one of that name exists. With single, the session is for one subscription and ends
	// when that subscription is cancelled.
	OpenSession(ctx context.Context, session string, single bool) error
	// CloseSession ends a session with all its subscriptions.
	CloseSession(ctx context.Context, session string) error
	// Messages returns the messages with numbers above arrived. If there are none, it waits for them a while. It returns
	// NOT_FOUND if the session has ended.
	Messages(ctx context.Context, session string, arrived uint64) ([]SubscriptionMessage, error)
	// Ended returns the final message for a subscription that has ended because the node has lost its session, for example in
	// a restart.
	Ended(subscription string) SubscriptionMessage
}

// SubscriptionMessage is a notification of a subscription to a client.
type SubscriptionMessage struct {
	// No numbers the messages of a session; Subscription is the id chosen by the client.
	No           uint64
	Subscription string
	Method       string
	Params       json.RawMessage
	// Last is set for the message that ends the subscription.
	Last bool
}

// feedOf returns the feed of a client's session, and opens it if necessary. It returns nil for a client without a session.
func (b *subscriber) feedOf(ctx context.Context, c client) (*feed, error) {
	if b.cfg.Stores.Subscriptions == nil || c.session == nil || c.modern && c.note(noteHTTP) != "" || b.life.Err() != nil {
		return nil, nil //nolint:nilnil,nilerr // there is no session, or it has ended
	}
	f, isNew := b.feeds.get(b, c.session.ID())
	if isNew { // concurrent callers wait for opened, without a lock
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

// sessionFor returns the name of the node's session for a tool call. The name is "" for a tool without Spec.Session, and for a
// client without a session. The client gets the messages of the subscription after the answer to this call (S3-043).
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

// sessionChanged is called when a tool call has subscribed or unsubscribed, before its answer is sent.
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

// subscriber delivers to clients the messages of subscriptions made with tools.
type subscriber struct {
	*core

	clients *connections
	// feeds deliver the messages to sessions, after the answers registered in clients.replies.
	feeds feeds
	// listeners are the subscriptions of clients without a session.
	listeners listeners
}

// reportLost notifies the client of a reopened session that the given subscriptions have ended.
func (b *subscriber) reportLost(id string, subscriptions []string) {
	f := newFeed(b, id) // the node has no session for this feed
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
		if b.feeds.has(id) || ctx.Err() != nil { // the present feed saves its own subscriptions
			return
		}
		b.clients.updateOpen(ctx, id, func(r *record) { r.Listening = nil })
	})
}
