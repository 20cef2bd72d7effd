package server

import (
	"context"
	"crypto/rand"
	"sync/atomic"
)

// outlet is a stream to a client, for as long as somebody reads it.
type outlet struct {
	no streamNo
	to sink
	// life ends with the stream.
	life context.Context //nolint:containedctx // it is the life of a stream
	end  context.CancelFunc
}

// outlets counts the streams of the process.
var outlets atomic.Uint64 //nolint:gochecknoglobals // numbers that are never used again

func newOutlet(to sink) *outlet {
	life, end := context.WithCancel(context.Background())
	return &outlet{streamNo(outlets.Add(1)), to, life, end}
}

// number is that of a stream that is read, 0 for any other.
func (o *outlet) number() streamNo {
	if o == nil || o.life.Err() != nil {
		return 0
	}
	return o.no
}

// standing is the stream of a session on which the server speaks by itself; nil for none.
func (s *streams) standing(id string) *outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// openRequest registers the stream of a request, under a key that is noted on the request, and returns how to end that.
func (s *streams) openRequest(key string, to sink) func() {
	o := newOutlet(to)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == nil {
		s.requests = map[string]*outlet{}
	}
	s.requests[key] = o
	return func() {
		s.mu.Lock()
		delete(s.requests, key)
		s.mu.Unlock()
		o.end()
	}
}

// forClient is the stream on which a client reads what belongs to its request; nil for none.
func (s *streams) forClient(c client) *outlet {
	key := c.note(noteStream)
	if key == "" && c.session != nil && c.session.ID() == "" {
		return s.standing("")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[key]
}

// replaceStanding ends the standing stream of a session for a new one: the client has opened that because it reads the former one no more,
// even where the connection still seems to be there. The context is that of the new one.
func (n *connections) replaceStanding(ctx context.Context, id, owner string) (context.Context, func()) {
	known := n.sessions.ownedBy(id, owner)
	ctx, stop := context.WithCancel(ctx)
	if known == nil {
		return ctx, stop
	}
	done := make(chan struct{})
	known.mu.Lock()
	former := known.displace
	known.displace = func() { stop(); <-done }
	known.mu.Unlock()
	if former != nil {
		former()
	}
	return ctx, func() { stop(); close(done) }
}

func newStreamKey() string { return rand.Text() }
