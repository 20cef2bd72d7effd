package server

import (
	"bytes"
	"io"
	"net/http"
)

// deferredWriter keeps a large answer until who has made it is done with it, and needs no memory for it any more. Only then it waits
// for the client to read. What is written at once gives the place among those who make answers back first: nobody waits for a
// client in it. Parts that were left out of an answer are put in while it is sent.
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

// send writes what was kept.
func (l *deferredWriter) send() {
	if len(l.late) > 0 {
		all := struct{ io.Reader }{io.MultiReader(l.late...)} // it would write each part as an answer of its own
		_, _ = io.Copy(l.ResponseWriter, all)                 // who does not read loses the connection
	}
}

// Unwrap gives access to deadlines.
func (l *deferredWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }
