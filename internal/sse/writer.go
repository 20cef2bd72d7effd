package sse

import "net/http"

// MediaType is the media type of streams of events.
const MediaType = "text/event-stream"

// Writer writes events to the answer of a request.
type Writer struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// Start sends the header of a stream.
func Start(w http.ResponseWriter) *Writer {
	w.Header().Set("Content-Type", MediaType)
	w.Header().Set("X-Accel-Buffering", "no") // disables buffering in proxies
	w.WriteHeader(http.StatusOK)
	return &Writer{w, http.NewResponseController(w)}
}

// Write writes encoded events, which may be in parts. The caller flushes them.
func (w *Writer) Write(parts ...[]byte) error {
	for _, part := range parts { // not joined: events may be large, and there may be many streams
		if _, err := w.w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Flush sends what was written.
func (w *Writer) Flush() error { return w.rc.Flush() }

// Comment sends a comment, which clients ignore. It shows that the connection is open.
func (w *Writer) Comment() error {
	if err := w.Write([]byte(": open\n\n")); err != nil {
		return err
	}
	return w.Flush()
}
