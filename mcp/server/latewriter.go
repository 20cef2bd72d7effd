package server

import (
	"bytes"
	"net/http"
)

// lateWriter keeps a large answer until who has made it is done with it, and needs no memory for it any more. Only then it waits
// for the client to read. What is written at once gives the place among those who make answers back first: nobody waits for a
// client in it.
type lateWriter struct {
	http.ResponseWriter

	room *room
	late [][]byte
}

// Write implements http.ResponseWriter.
func (l *lateWriter) Write(data []byte) (int, error) {
	if len(l.late) == 0 && (len(data) < largeAnswer || !l.room.holds()) {
		l.room.made()
		return l.ResponseWriter.Write(data)
	}
	l.late = append(l.late, bytes.Clone(data))
	return len(data), nil
}

// Flush implements http.Flusher.
func (l *lateWriter) Flush() {
	if len(l.late) == 0 {
		l.room.made()
		_ = http.NewResponseController(l.ResponseWriter).Flush()
	}
}

// send writes what was kept.
func (l *lateWriter) send() {
	for i, part := range l.late {
		if _, err := l.ResponseWriter.Write(part); err != nil {
			return
		}
		l.late[i] = nil
	}
}

// Unwrap gives access to deadlines.
func (l *lateWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }
