package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// writeTime is how long a client may take to read one message before it loses its stream.
const writeTime = 30 * time.Second

// sink takes notifications that the SDK does not know.
type sink interface {
	send(message json.RawMessage) error
}

// streams finds the open stream of a session by its id; "" is that of stdio.
type streams struct {
	mu   sync.Mutex
	byID map[string]sink
}

// open registers the stream of a session and returns how to end that.
func (s *streams) open(id string, to sink) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]sink{}
	}
	s.byID[id] = to
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.byID[id] == to {
			delete(s.byID, id)
		}
	}
}

// notify sends a notification on the stream of a session, if it has one.
func (s *streams) notify(id, method string, params any) bool {
	s.mu.Lock()
	to := s.byID[id]
	s.mu.Unlock()
	return to != nil && to.send(notification(method, params)) == nil
}

func notification(method string, params any) json.RawMessage {
	return mustJSON(object{"jsonrpc": "2.0", "method": method, "params": params})
}

// eventStream is a stream of server-sent events that the SDK writes, and the server too. A client that does not read
// loses it.
type eventStream struct {
	mu sync.Mutex
	w  http.ResponseWriter
	rc *http.ResponseController
	// begun is set when the header is out: notifications come after it; ended when the request is over.
	begun, ended bool
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
	e.begun = e.begun || status == http.StatusOK
	e.w.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (e *eventStream) Write(data []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = true
	_ = e.rc.SetWriteDeadline(time.Now().Add(writeTime))
	return e.w.Write(data)
}

// Flush implements http.Flusher.
func (e *eventStream) Flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = true
	_ = e.rc.Flush()
}

// end keeps the server from writing to a request that is over.
func (e *eventStream) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
}

// send implements sink.
func (e *eventStream) send(message json.RawMessage) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.begun || e.ended {
		return http.ErrNotSupported
	}
	_ = e.rc.SetWriteDeadline(time.Now().Add(writeTime))
	var b bytes.Buffer
	b.WriteString("event: message\ndata: ")
	b.Write(message)
	b.WriteString("\n\n")
	if _, err := e.w.Write(b.Bytes()); err != nil {
		return err
	}
	return e.rc.Flush()
}
