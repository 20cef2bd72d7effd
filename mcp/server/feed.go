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

// feed delivers subscription messages to a session, one after the other.
type feed struct {
	subscriber *subscriber
	// id is the id of the MCP session. name is a separate random name for the session at the node, so that knowing it does not
	// give access to the MCP session.
	id, name string

	mu sync.Mutex // held while a message is sent; guards the fields below
	// batch contains the messages still to be sent. lastSent is the number of the last message sent.
	batch    []SubscriptionMessage
	lastSent uint64
	// replies are channels by subscription id. The messages of a subscription wait until its channel is closed, that is, until
	// the call that subscribed has been answered.
	replies map[string]<-chan struct{}
	// active are the ids of the subscriptions that have not ended.
	active map[string]bool
	// ever are the ids of all subscriptions so far. They are recorded only if ever is not nil.
	ever map[string]bool
	// opened is closed when the node has opened the session or has failed to open it; failed is the error.
	opened chan struct{}
	failed error
	// generation is increased by refresh. poll drops the answer to a poll of an earlier generation. stop cancels the poll in
	// progress.
	generation int
	stop       context.CancelFunc
	// saveTimer is set while a save is pending.
	saveTimer *time.Timer
}

// newFeed returns a feed. The caller must open its session at the node.
func newFeed(s *subscriber, id string) *feed {
	return &feed{subscriber: s, id: id, replies: map[string]<-chan struct{}{}, active: map[string]bool{}, stop: func() {}}
}

// saveSoon schedules saving the ids of the active subscriptions in the record of the session. After a restart they are used to
// notify the client that the subscriptions have ended. f.mu must be held.
func (f *feed) saveSoon() {
	if f.id != "" && f.saveTimer == nil && f.name != "" && f.ever == nil {
		f.saveTimer = time.AfterFunc(saveAfter, func() { f.save(f.subscriber.life) })
	}
}

func (f *feed) save(ctx context.Context) {
	if ctx.Err() != nil { // the server ends: close calls saveNow
		return
	}
	f.mu.Lock()
	f.saveTimer = nil
	ids := slices.Sorted(maps.Keys(f.active))
	f.mu.Unlock()
	f.subscriber.clients.updateOpen(ctx, f.id, func(r *record) { r.Listening = bounded(ids, maxSaved) })
}

// saveNow runs a pending save.
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

// open opens the session at the node and delivers its messages until the session ends.
func (f *feed) open(ctx context.Context) {
	opening, stop := context.WithTimeout(ctx, openWithin)
	f.failed = f.subscriber.cfg.Stores.Subscriptions.OpenSession(opening, f.name, false)
	stop()
	if f.failed != nil {
		f.detach()
	}
	close(f.opened)
	if f.failed == nil {
		f.run(ctx)
	}
}

// run delivers messages until the session or the server ends.
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
			_ = pause.For(ctx, pollRetryDelay)
		default:
			f.sendAll(ctx)
		}
	}
}

// endAll notifies the client that its subscriptions have ended. Later calls get another feed.
func (f *feed) endAll(ctx context.Context) {
	f.detach()
	f.mu.Lock()
	f.batch = nil
	for id := range f.active {
		f.batch = append(f.batch, f.subscriber.cfg.Stores.Subscriptions.Ended(id))
	}
	f.mu.Unlock()
	f.sendAll(ctx)
}

// detach removes the feed, so that the next call creates another one.
func (f *feed) detach() {
	f.subscriber.feeds.mu.Lock()
	defer f.subscriber.feeds.mu.Unlock()
	if f.subscriber.feeds.byID[f.id] == f {
		delete(f.subscriber.feeds.byID, f.id)
	}
}

// poll waits for messages from the node and stores them in batch. It drops the messages if refresh was called meanwhile.
func (f *feed) poll(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f.mu.Lock()
	f.stop = stop
	generation, lastSent := f.generation, f.lastSent
	f.mu.Unlock()
	batch, err := f.subscriber.cfg.Stores.Subscriptions.Messages(ctx, f.name, lastSent)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.generation != generation {
		return nil
	}
	f.batch = batch
	return err
}

// sendAll sends the batch. A message waits until the call that subscribed has been answered, and until a stream is open.
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

// trySend sends messages until one must wait. done is set if all are sent. reply is the channel that the next message waits
// for; it is nil if the message waits for a stream.
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
		f.batch, f.lastSent = f.batch[1:], m.No
		f.record(m.Subscription, !m.Last)
	}
	return nil, true
}

// sendAfter makes the messages of a subscription wait until reply is closed.
func (f *feed) sendAfter(subscription string, reply <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.replies, func(_ string, out <-chan struct{}) bool { // trySend never removes the channel of a subscription without messages
		select {
		case <-out:
			return true
		default:
			return false
		}
	})
	f.replies[subscription] = reply
}

// record records that a subscription has started or ended. f.mu must be held.
func (f *feed) record(subscription string, active bool) {
	switch {
	case f.active[subscription] == active:
		return
	case active:
		f.active[subscription] = true
		if f.ever != nil {
			f.ever[subscription] = true
		}
	default:
		delete(f.active, subscription)
	}
	f.saveSoon()
}

// refresh polls again for all unsent messages, after a call has started a subscription (active) or ended it.
func (f *feed) refresh(subscription string, active bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record(subscription, active)
	f.batch = nil
	f.generation++
	f.stop()
}

// close ends the session at the node. The next call that needs a session opens another one.
func (f *feed) close(ctx context.Context) {
	f.detach()
	saving, stop := context.WithTimeout(ctx, closeTimeout)
	f.saveNow(saving) // first: an unreachable node uses up the whole timeout
	stop()
	ctx, stop = context.WithTimeout(ctx, closeTimeout)
	defer stop()
	_ = f.subscriber.cfg.Stores.Subscriptions.CloseSession(ctx, f.name) // otherwise the node removes it after a while
}

// bounded returns as many of the first names as fit into limit bytes.
func bounded(names []string, limit int) []string {
	for i, name := range names {
		if limit -= len(name); limit < 0 {
			return names[:i]
		}
	}
	return names
}

const (
	// saveAfter is how long after a change the ids of the subscriptions are saved.
	saveAfter = time.Second
	// maxSaved is the most bytes of subscription ids saved for a session.
	maxSaved = 16 << 10
)

const (
	// pollRetryDelay is how long a feed waits after a failed poll.
	pollRetryDelay = time.Second
	// closeTimeout limits each request to the node when a session ends.
	closeTimeout = time.Second
)
