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
	// lost are feeds of reopened sessions. They report to the client which subscriptions have ended, and are then removed.
	lost map[string]*feed
}

// setLost sets the lost feed of a session; nil removes it.
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

// clearEnded cancels the pending report that a subscription has ended, because the client starts a new subscription with the same
// id.
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

// get returns the feed of a session. If made is set, the feed is new and the caller must open it.
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
