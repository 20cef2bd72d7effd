package server

import (
	"crypto/rand"
	"slices"
	"sync"
)

// feeds holds the feeds of sessions, by session id; "" is stdio.
type feeds struct {
	mu   sync.Mutex
	byID map[string]*feed
	// lost are feeds of reopened sessions, until they have reported the subscriptions that have ended.
	lost map[string]*feed
}

func (a *feeds) setLost(id string, f *feed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lost == nil {
		a.lost = map[string]*feed{}
	}
	if a.lost[id] = f; f == nil {
		delete(a.lost, id)
	}
}

// has reports whether a session has a feed.
func (a *feeds) has(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byID[id] != nil
}

// clearEnded cancels the pending report that a subscription has ended: the client starts one with the same id before it got the report.
func (a *feeds) clearEnded(id, subscription string) {
	a.mu.Lock()
	f := a.lost[id]
	a.mu.Unlock()
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.active, subscription)
	f.batch = slices.DeleteFunc(f.batch, func(m SubscriptionMessage) bool { return m.Subscription == subscription })
}

// get returns the feed of a session, and whether it is new; the caller must open a new one.
func (a *feeds) get(s *subscriber, id string) (f *feed, made bool) {
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
