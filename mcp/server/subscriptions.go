package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
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

// feed brings messages to a session, one after the other.
type feed struct {
	s *Server
	// id is that of the session, name what the node knows it as: an id would let others go on with the session.
	id, name string

	mu sync.Mutex // held while a message is sent, and guards what follows
	// batch are the messages that are being sent, arrived is the number of the last one that was.
	batch   []SubscriptionMessage
	arrived uint64
	// replies are the calls whose answers come before the messages of a subscription, by its id.
	replies map[string]<-chan struct{}
	// known are the subscriptions that there are, as far as the feed knows.
	known map[string]bool
	// ever are those that there ever were, where somebody wants to know.
	ever map[string]bool
	// opened is closed when the node has opened the session, or has not: failed says why.
	opened chan struct{}
	failed error
	// asked counts what makes the answer to a request for messages useless; stop ends the request.
	asked int
	stop  context.CancelFunc
	// keeping is set when what is known will be kept with the session.
	keeping *time.Timer
}

// feeds are the feeds of sessions, by the id of the session; "" is that of stdio.
type feeds struct {
	mu   sync.Mutex
	byID map[string]*feed
	// lost are those of sessions that were opened again, until they have said what has ended meanwhile.
	lost map[string]*feed
}

// feedOf returns the feed of the session of a client, which begins with it; nil for a client that has no session.
func (s *Server) feedOf(ctx context.Context, c client) (*feed, error) {
	if s.cfg.Subscriptions == nil || c.session == nil || c.modern && c.note(noteHTTP) != "" || s.life.Err() != nil {
		return nil, nil //nolint:nilnil,nilerr // a client without a session has none, nor has one at the end
	}
	f, mine := s.feeds.of(s, c.session.ID())
	if mine { // who comes meanwhile waits as well, and for no lock
		life, end := s.whileOpen(c.session)
		s.group.Go(func() {
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

// newFeed returns a feed without a name at the node.
func newFeed(s *Server, id string) *feed {
	return &feed{s: s, id: id, replies: map[string]<-chan struct{}{}, known: map[string]bool{}, stop: func() {}}
}

// of returns the feed of a session, and whether it is a new one, which its maker has to open.
func (a *feeds) of(s *Server, id string) (f *feed, made bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.byID[id]; f != nil {
		return f, false
	}
	f = newFeed(s, id)
	f.name, f.opened = rand.Text(), make(chan struct{})
	if a.byID == nil {
		a.byID = map[string]*feed{}
	}
	a.byID[id] = f
	return f, true
}

// open opens the session at the node and brings its messages until the session is over.
func (f *feed) open(ctx context.Context) {
	opening, stop := context.WithTimeout(ctx, openWithin)
	f.failed = f.s.cfg.Subscriptions.OpenSession(opening, f.name, false)
	stop()
	if f.failed != nil {
		f.leave()
	}
	close(f.opened)
	if f.failed == nil {
		f.run(ctx)
	}
}

// whileOpen returns a context that ends with a session.
func (s *Server) whileOpen(session *mcp.ServerSession) (context.Context, context.CancelFunc) {
	life, end := context.WithCancel(s.life)
	if id := session.ID(); id != "" {
		context.AfterFunc(s.sessions.of(id).life, end)
	}
	s.group.Go(func() { // until Close at the latest
		defer end()
		_ = session.Wait() // why it has ended does not matter
	})
	return life, end
}

// feedAgain is how long a feed waits after a node did not answer.
const feedAgain = time.Second

// run carries messages until the session or the server is over.
func (f *feed) run(ctx context.Context) {
	defer f.close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		err := f.ask(ctx)
		switch {
		case fault.Has(err, fault.NotFound):
			f.s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "mcp_subscriptions_ended", slog.Any("error", err))
			f.giveUp(ctx)
			return
		case err != nil && ctx.Err() == nil:
			_ = pause.For(ctx, feedAgain)
		default:
			f.sendAll(ctx)
		}
	}
}

// giveUp tells the client of the end of its subscriptions. Those of calls that come now belong to another feed.
func (f *feed) giveUp(ctx context.Context) {
	f.leave()
	f.mu.Lock()
	f.batch = nil
	for id := range f.known {
		f.batch = append(f.batch, f.s.cfg.Subscriptions.Ended(id))
	}
	f.mu.Unlock()
	f.sendAll(ctx)
}

// leave lets the next call that needs a feed make another one.
func (f *feed) leave() {
	f.s.feeds.mu.Lock()
	defer f.s.feeds.mu.Unlock()
	if f.s.feeds.byID[f.id] == f {
		delete(f.s.feeds.byID, f.id)
	}
}

// ask asks for messages. An answer that came too late is none.
func (f *feed) ask(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f.mu.Lock()
	f.stop = stop
	asked, arrived := f.asked, f.arrived
	f.mu.Unlock()
	batch, err := f.s.cfg.Subscriptions.Messages(ctx, f.name, arrived)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked != asked {
		return nil
	}
	f.batch = batch
	return err
}

// sendAll sends the batch: each message when the client has the answer that comes before it, and a stream to hear it on.
func (f *feed) sendAll(ctx context.Context) {
	for ctx.Err() == nil {
		changed := f.s.streams.changes()
		reply, done := f.trySend()
		switch {
		case done:
			return
		case reply != nil:
			changed = reply
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// trySend sends messages. It returns the answer that has to come before the next one, if that is missing, and whether
// there is nothing left to send.
func (f *feed) trySend() (reply <-chan struct{}, done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.batch) > 0 {
		m := f.batch[0]
		if reply := f.replies[m.Subscription]; reply != nil {
			select {
			case <-reply:
				delete(f.replies, m.Subscription)
			default:
				return reply, false
			}
		}
		if !f.s.streams.notify(f.id, m.Method, m.Params) {
			return nil, false
		}
		f.batch, f.arrived = f.batch[1:], m.No
		f.note(m.Subscription, !m.Last)
	}
	return nil, true
}

// after lets the messages of a subscription wait for the answer to a call.
func (f *feed) after(subscription string, reply <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.replies, func(_ string, out <-chan struct{}) bool { // those of calls that nothing followed from
		select {
		case <-out:
			return true
		default:
			return false
		}
	})
	f.replies[subscription] = reply
}

// note notes whether there is a subscription. The lock is held.
func (f *feed) note(subscription string, there bool) {
	switch {
	case f.known[subscription] == there:
		return
	case there:
		f.known[subscription] = true
		if f.ever != nil {
			f.ever[subscription] = true
		}
	default:
		delete(f.known, subscription)
	}
	f.saveSoon()
}

// refresh asks the node anew for what was not sent: a call has begun or ended a subscription.
func (f *feed) refresh(subscription string, there bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note(subscription, there)
	f.batch = nil
	f.asked++
	f.stop()
}

// sessionFor returns the name of the session in which a tool acts, "" for a tool that acts in none, and for a client that
// has none. What the client hears of the subscription comes after the answer to this call (S3-043).
func (s *Server) sessionFor(ctx context.Context, c client, r *run, args json.RawMessage) (string, error) {
	if r.spec.Session == tools.NoSession {
		return "", nil
	}
	r.subscription = subscriptionOf(args)
	if c.sessionless {
		return s.listenerFor(ctx, c, r)
	}
	if c.modern && c.note(noteHTTP) != "" {
		return s.listenSessionOf(c, r)
	}
	f, err := s.feedOf(ctx, c)
	if f == nil || err != nil {
		return "", err
	}
	s.feeds.begunAnew(f.id, r.subscription)
	if reply := s.replies.of(f.id, c.note(noteID)); reply != nil {
		f.after(r.subscription, reply)
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
func (s *Server) sessionChanged(c client, r *run) {
	f := r.feed
	if f == nil {
		s.feeds.mu.Lock()
		f = s.feeds.byID[c.session.ID()]
		s.feeds.mu.Unlock()
	}
	if f != nil {
		f.refresh(r.subscription, r.spec.Session == tools.Subscribes)
	}
}

// close ends the session at the node. The next call that needs one opens another.
func (f *feed) close(ctx context.Context) {
	f.leave()
	keeping, stop := context.WithTimeout(ctx, feedAgain)
	f.saveNow(keeping) // first: a node that is gone takes all the time that it is given
	stop()
	ctx, stop = context.WithTimeout(ctx, feedAgain)
	defer stop()
	_ = f.s.cfg.Subscriptions.CloseSession(ctx, f.name) // else the node forgets it by itself
}

// replies are the calls that are being answered: their channels are closed when the answer is out.
type replies struct {
	mu   sync.Mutex
	open map[replyKey]chan struct{}
}

// replyKey names a request by its session and its id.
type replyKey struct{ session, request string }

// begin notes a call and returns how to end that.
func (r *replies) begin(session, request string) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[replyKey]chan struct{}{}
	}
	key, out := replyKey{session, request}, make(chan struct{})
	r.open[key] = out
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open[key] == out {
			delete(r.open, key)
		}
		close(out)
	}
}

// of returns the channel of a call, nil when it is answered.
func (r *replies) of(session, request string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if out, ok := r.open[replyKey{session, request}]; ok {
		return out
	}
	return nil
}
