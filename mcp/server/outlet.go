package server

import (
	"context"
	"crypto/rand"
	"sync/atomic"
)

// outlet is an open stream to a client.
type outlet struct {
	no streamNo
	to sink
	// life is cancelled when the stream ends.
	life context.Context //nolint:containedctx // a stream is used by several requests
	end  context.CancelFunc
}

// lastStreamNo is the number of the newest stream.
var lastStreamNo atomic.Uint64 //nolint:gochecknoglobals // stream numbers are unique in the process

func newOutlet(to sink) *outlet {
	life, end := context.WithCancel(context.Background())
	return &outlet{streamNo(lastStreamNo.Add(1)), to, life, end}
}

// number returns the number of an open stream, 0 otherwise.
func (o *outlet) number() streamNo {
	if o == nil || o.life.Err() != nil {
		return 0
	}
	return o.no
}

// standing returns the standing stream of a session, nil for none. It is the stream for messages that do not belong to a request
// of the client: over HTTP the response to its GET request, over stdio the output.
func (s *streams) standing(id string) *outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// openRequest registers the stream of a request under the key recorded on the request. It returns the function that unregisters
// the stream.
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

// forClient returns the stream on which a client reads messages that belong to its request; nil for none.
func (s *streams) forClient(c client) *outlet {
	key := c.note(noteStream)
	if key == "" && c.session != nil && c.session.ID() == "" {
		return s.standing("")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[key]
}

// replaceStanding ends the present standing stream of a session, and returns the context for a new one. A client that opens a new
// stream no longer reads the previous one, even if the previous connection seems alive. The caller must call the returned
// function when the new stream has ended.
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
