package server

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"sync"
)

// sink takes notifications that the SDK does not know, in parts, one behind the other. Where there are several, the second one
// are the params: they are sent as the node keeps them, so that a client that does not read takes no copy of them.
type sink interface {
	send(parts ...[]byte) error
}

// streams finds the open stream of a session by its id; "" is that of stdio.
type streams struct {
	mu   sync.Mutex
	byID map[string]*outlet
	// requests are the streams of requests that may wait for people, by the keys that are noted on them.
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

// open registers the stream of a session and returns how to end that.
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

// notify sends a notification on the stream of a session, if it has one.
func (s *streams) notify(id, method string, params any) bool {
	o := s.standing(id)
	return o != nil && o.to.send(notificationParts(method, params)...) == nil
}

// notificationParts is a notification whose params stay as they are if they are JSON already.
func notificationParts(method string, params any) net.Buffers {
	if text, ok := params.(json.RawMessage); ok && len(text) > 0 {
		return net.Buffers{[]byte(`{"jsonrpc":"2.0","method":"` + method + `","params":`), text, []byte("}")}
	}
	return net.Buffers{notification(method, params)}
}

func notification(method string, params any) json.RawMessage {
	return mustJSON(object{"jsonrpc": "2.0", "method": method, "params": params})
}

// eventStream is a stream of server-sent events that the SDK writes, and the server too.
type eventStream struct {
	mu sync.Mutex
	w  http.ResponseWriter
	rc *http.ResponseController
	// begun is set when the header is out: notifications come after it; refused when the client got an error
	// instead; ended when the request is over. opens is set when the server may send the header: it answers the request.
	begun, refused, ended, opens bool
	// onBegin is called once, when the client has got the stream.
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

// begin notes that the header is out. The lock is held.
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

// end keeps the server from writing to a request that is over.
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
