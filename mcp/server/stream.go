package server

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"sync"
)

// sink sends notifications that the SDK cannot send.
type sink interface {
	// send sends one message, the concatenation of parts. If there are several parts, the second contains the params. It is
	// shared with the node, so that a client that does not read needs no copy.
	send(parts ...[]byte) error
}

// streams contains the open streams to clients.
type streams struct {
	mu sync.Mutex
	// byID are the streams of sessions, by session id; "" is stdio.
	byID map[string]*outlet
	// requests are the streams of requests that may wait for people, by the key recorded on the request.
	requests map[string]*outlet
	// opened is closed when a stream opens.
	opened chan struct{}
}

// changes returns a channel that is closed when a stream opens.
func (s *streams) changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil {
		s.opened = make(chan struct{})
	}
	return s.opened
}

// open registers the stream of a session and returns the function that unregisters it.
func (s *streams) open(id string, to sink) func() {
	o := newOutlet(to)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*outlet{}
	}
	s.byID[id] = o
	if s.opened != nil {
		close(s.opened)
		s.opened = nil
	}
	return func() {
		s.mu.Lock()
		if s.byID[id] == o {
			delete(s.byID, id)
		}
		s.mu.Unlock()
		o.end()
	}
}

// notify sends a notification on the stream of a session, and reports whether it was sent.
func (s *streams) notify(id, method string, params any) bool {
	o := s.standing(id)
	return o != nil && o.to.send(notificationParts(method, params)...) == nil
}

// notificationParts returns an encoded notification in parts. It does not copy params that are encoded JSON.
func notificationParts(method string, params any) net.Buffers {
	if text, ok := params.(json.RawMessage); ok && len(text) > 0 {
		return net.Buffers{[]byte(`{"jsonrpc":"2.0","method":"` + method + `","params":`), text, []byte("}")}
	}
	return net.Buffers{notification(method, params)}
}

func notification(method string, params any) json.RawMessage {
	return mustJSON(object{"jsonrpc": "2.0", "method": method, "params": params})
}

// eventStream is a stream of server-sent events that both the SDK and the server write.
type eventStream struct {
	mu sync.Mutex
	w  http.ResponseWriter
	rc *http.ResponseController
	// begun is set once the header was sent; only then can notifications be sent. refused is set if the status of the
	// response is not 200.
	begun, refused bool
	// ended is set when the request has ended.
	ended bool
	// opens is set if send may send the header itself.
	opens bool
	// onBegin is called once, after the header was sent; may be nil.
	onBegin func()
}

func newEventStream(w http.ResponseWriter) *eventStream {
	return &eventStream{w: w, rc: http.NewResponseController(w)}
}

// Header implements http.ResponseWriter.
func (e *eventStream) Header() http.Header { return e.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (e *eventStream) WriteHeader(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.w.WriteHeader(status)
	if e.refused = status != http.StatusOK; !e.refused {
		e.begin()
	}
}

// begin records that the header was sent. e.mu must be held.
func (e *eventStream) begin() {
	if e.begun || e.refused {
		return
	}
	if e.begun = true; e.onBegin != nil {
		e.onBegin()
	}
}

// Write implements http.ResponseWriter.
func (e *eventStream) Write(data []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begin()
	return e.w.Write(data)
}

// Flush implements http.Flusher.
func (e *eventStream) Flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begin()
	_ = e.rc.Flush()
}

// end prevents later writes to a request that has ended.
func (e *eventStream) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
}

// send implements sink.
func (e *eventStream) send(parts ...[]byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.begun && !e.opens || e.refused || e.ended {
		return http.ErrNotSupported
	}
	e.begin()
	for _, part := range slices.Concat([][]byte{[]byte("event: message\ndata: ")}, parts, [][]byte{[]byte("\n\n")}) {
		if _, err := e.w.Write(part); err != nil {
			return err
		}
	}
	return e.rc.Flush()
}
