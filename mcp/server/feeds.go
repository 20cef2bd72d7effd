package server

import (
	"crypto/rand"
	"slices"
	"sync"
)

// feeds are the feeds of sessions, by the id of the session; "" is that of stdio.
type feeds struct {
	mu   sync.Mutex
	byID map[string]*feed
	// lost are those of sessions that were opened again, until they have said what has ended meanwhile.
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

// clearEnded takes back that a subscription has ended: the client begins one of the same id, and has not heard of the end.
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

// get returns the feed of a session, and whether it is a new one, which its maker has to open.
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
