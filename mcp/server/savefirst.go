package server

import (
	"net/http"
	"sync"
)

// saveFirstWriter saves a new session before the response is written, so that a crash loses no session that a client knows.
type saveFirstWriter struct {
	http.ResponseWriter
	id   string
	keep func()
	once sync.Once
}

func (k *saveFirstWriter) begin() {
	k.once.Do(func() {
		if k.Header().Get(headerSession) == k.id {
			k.keep()
		}
	})
}

// WriteHeader implements http.ResponseWriter.
func (k *saveFirstWriter) WriteHeader(status int) {
	k.begin()
	k.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (k *saveFirstWriter) Write(data []byte) (int, error) {
	k.begin()
	return k.ResponseWriter.Write(data)
}

// Flush implements http.Flusher.
func (k *saveFirstWriter) Flush() {
	k.begin()
	_ = http.NewResponseController(k.ResponseWriter).Flush()
}

// Unwrap returns the underlying writer, for deadlines.
func (k *saveFirstWriter) Unwrap() http.ResponseWriter { return k.ResponseWriter }
