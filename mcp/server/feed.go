package server

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

// feed brings messages to a session, one after the other.
type feed struct {
	subscriber *subscriber
	// id is that of the session, name what the node knows it as: an id would let others go on with the session.
	id, name string

	mu sync.Mutex // held while a message is sent, and guards what follows
	// batch are the messages that are being sent, arrived is the number of the last one that was.
	batch   []SubscriptionMessage
	arrived uint64
	// replies are the calls whose answers come before the messages of a subscription, by its id.
	replies map[string]<-chan struct{}
	// active are the subscriptions that there are, as far as the feed knows.
	active map[string]bool
	// ever are those that there ever were, where somebody wants to know.
	ever map[string]bool
	// opened is closed when the node has opened the session, or has not: failed says why.
	opened chan struct{}
	failed error
	// polls counts what makes the answer to a request for messages useless; stop ends the request.
	polls int
	stop  context.CancelFunc
	// saveTimer is set when what is known will be kept with the session.
	saveTimer *time.Timer
}

// newFeed returns a feed without a name at the node.
func newFeed(s *subscriber, id string) *feed {
	return &feed{subscriber: s, id: id, replies: map[string]<-chan struct{}{}, active: map[string]bool{}, stop: func() {}}
}

// saveSoon sees to it that the ids of subscriptions are kept with their session: after a restart the client hears that
// they have ended. The lock is held.
func (f *feed) saveSoon() {
	if f.id != "" && f.saveTimer == nil && f.name != "" && f.ever == nil {
		f.saveTimer = time.AfterFunc(saveAfter, func() { f.save(f.subscriber.life) })
	}
}

func (f *feed) save(ctx context.Context) {
	if ctx.Err() != nil { // saveNow does it
		return
	}
	f.mu.Lock()
	f.saveTimer = nil
	ids := slices.Sorted(maps.Keys(f.active))
	f.mu.Unlock()
	f.subscriber.clients.updateOpen(ctx, f.id, func(r *record) { r.Listening = bounded(ids, maxSaved) })
}

// saveNow keeps what saveSoon would have.
func (f *feed) saveNow(ctx context.Context) {
	f.mu.Lock()
	due := f.saveTimer != nil
	if due {
		f.saveTimer.Stop()
	}
	f.mu.Unlock()
	if due {
		f.save(ctx)
	}
}

// open opens the session at the node and brings its messages until the session is over.
func (f *feed) open(ctx context.Context) {
	opening, stop := context.WithTimeout(ctx, openWithin)
	f.failed = f.subscriber.cfg.Subscriptions.OpenSession(opening, f.name, false)
	stop()
	if f.failed != nil {
		f.detach()
	}
	close(f.opened)
	if f.failed == nil {
		f.run(ctx)
	}
}

// run carries messages until the session or the server is over.
func (f *feed) run(ctx context.Context) {
	defer f.close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		err := f.poll(ctx)
		switch {
		case fault.Has(err, fault.NotFound):
			f.subscriber.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "mcp_subscriptions_ended", slog.Any("error", err))
			f.endAll(ctx)
			return
		case err != nil && ctx.Err() == nil:
			_ = pause.For(ctx, feedAgain)
		default:
			f.sendAll(ctx)
		}
	}
}

// endAll tells the client of the end of its subscriptions. Those of calls that come now belong to another feed.
func (f *feed) endAll(ctx context.Context) {
	f.detach()
	f.mu.Lock()
	f.batch = nil
	for id := range f.active {
		f.batch = append(f.batch, f.subscriber.cfg.Subscriptions.Ended(id))
	}
	f.mu.Unlock()
	f.sendAll(ctx)
}

// detach lets the next call that needs a feed make another one.
func (f *feed) detach() {
	f.subscriber.feeds.mu.Lock()
	defer f.subscriber.feeds.mu.Unlock()
	if f.subscriber.feeds.byID[f.id] == f {
		delete(f.subscriber.feeds.byID, f.id)
	}
}

// poll asks for messages. An answer that came too late is none.
func (f *feed) poll(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f.mu.Lock()
	f.stop = stop
	asked, arrived := f.polls, f.arrived
	f.mu.Unlock()
	batch, err := f.subscriber.cfg.Subscriptions.Messages(ctx, f.name, arrived)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.polls != asked {
		return nil
	}
	f.batch = batch
	return err
}

// sendAll sends the batch: each message when the client has the answer that comes before it, and a stream to hear it on.
func (f *feed) sendAll(ctx context.Context) {
	for ctx.Err() == nil {
		changed := f.subscriber.clients.streams.changes()
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
		if !f.subscriber.clients.streams.notify(f.id, m.Method, m.Params) {
			return nil, false
		}
		f.batch, f.arrived = f.batch[1:], m.No
		f.record(m.Subscription, !m.Last)
	}
	return nil, true
}

// sendAfter lets the messages of a subscription wait for the answer to a call.
func (f *feed) sendAfter(subscription string, reply <-chan struct{}) {
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

// record notes whether there is a subscription. The lock is held.
func (f *feed) record(subscription string, there bool) {
	switch {
	case f.active[subscription] == there:
		return
	case there:
		f.active[subscription] = true
		if f.ever != nil {
			f.ever[subscription] = true
		}
	default:
		delete(f.active, subscription)
	}
	f.saveSoon()
}

// refresh asks the node anew for what was not sent: a call has begun or ended a subscription.
func (f *feed) refresh(subscription string, there bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record(subscription, there)
	f.batch = nil
	f.polls++
	f.stop()
}

// close ends the session at the node. The next call that needs one opens another.
func (f *feed) close(ctx context.Context) {
	f.detach()
	keeping, stop := context.WithTimeout(ctx, feedAgain)
	f.saveNow(keeping) // first: a node that is gone takes all the time that it is given
	stop()
	ctx, stop = context.WithTimeout(ctx, feedAgain)
	defer stop()
	_ = f.subscriber.cfg.Subscriptions.CloseSession(ctx, f.name) // else the node forgets it by itself
}

// bounded returns the first names of a list that have so many bytes together.
func bounded(names []string, most int) []string {
	for i, name := range names {
		if most -= len(name); most < 0 {
			return names[:i]
		}
	}
	return names
}

const (
	// saveAfter is how long after a change of them the ids of the subscriptions of a session are kept.
	saveAfter = time.Second
	// maxSaved is how many bytes of ids are kept of a session.
	maxSaved = 16 << 10
)

// feedAgain is how long a feed waits after a node did not answer.
const feedAgain = time.Second
