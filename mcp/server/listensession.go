package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// eventsExtension is the extension of 2026-07-28 with which clients without a session receive subscription events. The filter of
// subscriptions/listen contains subscription ids; the events of subscriptions with these ids are sent on its stream.
const eventsExtension = "orch/subscriptions"

// taggedStream adds the id of the listening request to each notification, as 2026-07-28 requires.
type taggedStream struct {
	*eventStream

	request json.RawMessage
}

// send implements sink.
func (s *taggedStream) send(parts ...[]byte) error {
	if len(parts) > 1 && len(parts[1]) > len("{}") { // params are an object with fields
		meta := mustJSON(object{mcp.MetaKeySubscriptionID: s.request})
		head := slices.Concat(parts[0], []byte(`{"_meta":`), meta, []byte(","))
		return s.eventStream.send(append([][]byte{head, parts[1][1:]}, parts[2:]...)...)
	}
	m := fieldsOf(json.RawMessage(bytes.Join(parts, nil)))
	params := fieldsOf(m["params"])
	params["_meta"] = object{mcp.MetaKeySubscriptionID: s.request}
	m["params"] = params
	return s.eventStream.send(mustJSON(m))
}

// listenSession is the session at the node for a subscriptions/listen request of a client without a session. It ends with the
// request.
type listenSession struct {
	feed *feed
	// keys are the subscriptions that the client may start.
	keys []listenerKey
}

// requestIdentity returns the identity of a request over HTTP.
func requestIdentity(r *http.Request) (who Identity) {
	if info := auth.TokenInfoFromContext(r.Context()); info != nil {
		who, _ = info.Extra[identityKey].(Identity)
	}
	return who
}

// openListenSession opens a session for the subscription ids of a listening request. It skips ids that are in use, and returns
// nil if no id remains.
func (b *subscriber) openListenSession(ctx context.Context, who Identity, ids []string) (*listenSession, error) {
	if b.cfg.Stores.Subscriptions == nil || len(ids) == 0 {
		return nil, nil //nolint:nilnil // no session is needed
	}
	e := &listenSession{feed: newFeed(b, "listen "+rand.Text())}
	e.feed.name, e.feed.ever = rand.Text(), map[string]bool{}
	for _, id := range ids {
		key := listenerKey{who.Name, id}
		if b.listeners.register(key, e.feed.name, e.feed) == nil {
			e.keys = append(e.keys, key)
		}
	}
	if len(e.keys) == 0 {
		return nil, nil //nolint:nilnil // no session is needed
	}
	opening, stop := context.WithTimeout(ctx, openWithin)
	defer stop()
	if err := b.cfg.Stores.Subscriptions.OpenSession(opening, e.feed.name, false); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// ids returns the ids of the subscriptions that the client may start.
func (e *listenSession) ids() []string {
	var ids []string
	if e != nil {
		for _, key := range e.keys {
			ids = append(ids, key.subscription)
		}
	}
	return ids
}

// forward sends the messages of the subscriptions on stream, after begun is closed. It returns when ctx ends, or when the node
// no longer has the session.
func (e *listenSession) forward(ctx context.Context, stream *eventStream, begun <-chan struct{}, request json.RawMessage) {
	if e == nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(e.feed.subscriber.life, stop)()
	select {
	case <-ctx.Done():
	case <-begun:
	}
	defer e.feed.subscriber.clients.streams.open(e.feed.id, &taggedStream{stream, request})()
	e.feed.run(ctx)
}

// close frees the ids of the subscriptions.
func (e *listenSession) close() {
	if e == nil {
		return
	}
	e.feed.mu.Lock()
	ever := maps.Clone(e.feed.ever) // running calls may still record subscriptions
	e.feed.mu.Unlock()
	for _, key := range e.keys {
		e.feed.subscriber.listeners.unregister(key, e.feed.name, ever[key.subscription])
	}
}

// listenSessionOf returns the name of the node's session for a call of a client of 2026-07-28 over HTTP: the session of the
// listening request with the id of the subscription. The name is empty if there is no such request.
func (b *subscriber) listenSessionOf(c client, r *run) (string, error) {
	key := listenerKey{c.who.Name, r.subscription}
	name, err := b.listeners.find(key)
	if fault.Has(err, fault.Gone) && r.spec.Session == tools.Unsubscribes {
		return "", err
	}
	if err != nil {
		return "", nil //nolint:nilerr // the tool reports that there is no session
	}
	if r.feed = b.listeners.feedOf(key); r.feed != nil {
		if reply := b.clients.replies.done(noteReply, c.note(noteReply)); reply != nil {
			r.feed.sendAfter(r.subscription, reply)
		}
	}
	return name, nil
}
