package server

import (
	"context"
	"maps"
	"slices"
	"time"
)

const (
	// keepAfter is how long after a change of them the ids of the subscriptions of a session are kept.
	keepAfter = time.Second
	// maxKept is how many bytes of ids are kept of a session.
	maxKept = 16 << 10
)

// saveSoon sees to it that the ids of subscriptions are kept with their session: after a restart the client hears that
// they have ended. The lock is held.
func (f *feed) saveSoon() {
	if f.id != "" && f.keeping == nil && f.name != "" && f.ever == nil {
		f.keeping = time.AfterFunc(keepAfter, func() { f.save(f.s.life) })
	}
}

func (f *feed) save(ctx context.Context) {
	if ctx.Err() != nil { // saveNow does it
		return
	}
	f.mu.Lock()
	f.keeping = nil
	ids := slices.Sorted(maps.Keys(f.known))
	f.mu.Unlock()
	f.s.changeKnown(ctx, f.id, func(r *record) { r.Listening = bounded(ids, maxKept) })
}

// saveNow keeps what saveSoon would have.
func (f *feed) saveNow(ctx context.Context) {
	f.mu.Lock()
	due := f.keeping != nil
	if due {
		f.keeping.Stop()
	}
	f.mu.Unlock()
	if due {
		f.save(ctx)
	}
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

// changeKnown changes what is kept of a session, unless that is over.
func (s *Server) changeKnown(ctx context.Context, id string, change func(*record)) {
	s.sessions.mu.Lock()
	known := s.sessions.byID[id]
	s.sessions.mu.Unlock()
	if known == nil || known.life.Err() != nil {
		return
	}
	known.mu.Lock()
	change(&known.record)
	data := mustJSON(known.record)
	known.mu.Unlock()
	s.save(ctx, id, data)
}

// tellLost tells the client of a session that was opened again of the subscriptions that have ended meanwhile.
func (s *Server) tellLost(id string, subscriptions []string) {
	f := newFeed(s, id) // the node knows no such session
	for _, subscription := range subscriptions {
		f.known[subscription] = true
	}
	s.feeds.setLost(id, f)
	ctx, end := context.WithCancel(s.life)
	context.AfterFunc(s.sessions.of(id).life, end)
	s.group.Go(func() {
		defer end()
		defer s.feeds.setLost(id, nil)
		f.giveUp(ctx)
		if s.feeds.has(id) || ctx.Err() != nil { // what there is now is kept by whom it belongs to
			return
		}
		s.changeKnown(ctx, id, func(r *record) { r.Listening = nil })
	})
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

// begunAnew takes back that a subscription has ended: the client begins one of the same id, and has not heard of the end.
func (a *feeds) begunAnew(id, subscription string) {
	a.mu.Lock()
	f := a.lost[id]
	a.mu.Unlock()
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, subscription)
	f.batch = slices.DeleteFunc(f.batch, func(m SubscriptionMessage) bool { return m.Subscription == subscription })
}
