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

// eventsExtension is the extension of 2026-07-28 through which clients without a session receive subscription events: the
// filter of subscriptions/listen has the ids, and calls with these ids belong to the stream.
const eventsExtension = "orch/subscriptions"

// taggedStream is a stream whose notifications carry the id of the request that they belong to, as 2026-07-28 requires.
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

// listenSession is the session at the node of a client that has none itself. It lasts as long as the listening request.
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

// openListenSession opens a session for a client that listens to subscriptions. It skips ids that are in use, and returns nil if none
// is left.
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

// forward sends the messages of the subscriptions after the stream has begun, until ctx ends, or the node no longer knows the
// session.
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

// close frees the ids.
func (e *listenSession) close() {
	if e == nil {
		return
	}
	e.feed.mu.Lock()
	ever := maps.Clone(e.feed.ever) // calls that started before may still record theirs
	e.feed.mu.Unlock()
	for _, key := range e.keys {
		e.feed.subscriber.listeners.unregister(key, e.feed.name, ever[key.subscription])
	}
}

// listenSessionOf returns the name of the session that a client of 2026-07-28 uses over HTTP: that of its listening request.
func (b *subscriber) listenSessionOf(c client, r *run) (string, error) {
	key := listenerKey{c.who.Name, r.subscription}
	name, err := b.listeners.find(key)
	if fault.Has(err, fault.Gone) && r.spec.Session == tools.Unsubscribes {
		return "", err
	}
	if err != nil {
		return "", nil //nolint:nilerr // without one, the tool reports the error
	}
	if r.feed = b.listeners.feedOf(key); r.feed != nil {
		if reply := b.clients.replies.done(noteReply, c.note(noteReply)); reply != nil {
			r.feed.sendAfter(r.subscription, reply)
		}
	}
	return name, nil
}
