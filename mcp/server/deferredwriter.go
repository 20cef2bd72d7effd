package server

import (
	"bytes"
	"io"
	"net/http"
)

// deferredWriter buffers a large answer until send is called, after its handler has returned. So the memory of the handler is
// free before the answer is written to the client, which may be slow. A small answer is written at once; the write first
// releases the semaphore for making answers, so that no request waits for a slow client. Parts that were extracted from the
// answer are inserted while it is sent.
type deferredWriter struct {
	http.ResponseWriter

	reservation *reservation
	late        []io.Reader
}

// Write implements http.ResponseWriter.
func (l *deferredWriter) Write(data []byte) (int, error) {
	filled := l.reservation.fill(data)
	switch {
	case filled != nil:
		l.late = append(l.late, filled)
	case len(l.late) > 0 || len(data) >= largeAnswer && l.reservation.isLarge():
		l.late = append(l.late, bytes.NewReader(bytes.Clone(data)))
	default:
		l.reservation.doneMaking()
		return l.ResponseWriter.Write(data)
	}
	return len(data), nil
}

// Flush implements http.Flusher.
func (l *deferredWriter) Flush() {
	if len(l.late) == 0 {
		l.reservation.doneMaking()
		_ = http.NewResponseController(l.ResponseWriter).Flush()
	}
}

// send writes the buffered answer.
func (l *deferredWriter) send() {
	if len(l.late) > 0 {
		all := struct{ io.Reader }{io.MultiReader(l.late...)} // hides WriteTo, which would write each part separately
		_, _ = io.Copy(l.ResponseWriter, all)                 // a client that does not read loses the connection
	}
}

// Unwrap returns the underlying writer, for deadlines.
func (l *deferredWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }
