package rest

import (
	"net/http"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Refuse answers a request that is refused for one of its headers, before any handler sees it.
func Refuse(w http.ResponseWriter, status int, header, why string) {
	err := fault.New(fault.InvalidRequest, "%s", why).WithField(header)
	if status == http.StatusUnsupportedMediaType {
		err = err.WithReason(reasonMedia)
	}
	writeProblem(w, &statusError{status, err})
}

// WithErrors returns a handler that answers like a mux, but with errors of the API for unknown paths and methods.
func WithErrors(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		told := refusal{header: http.Header{}}
		h.ServeHTTP(&told, r)
		if told.status == http.StatusMethodNotAllowed {
			allowed := told.header.Get("Allow")
			w.Header().Set("Allow", allowed)
			writeProblem(w, errVerb(r.Method, allowed))
			return
		}
		writeProblem(w, errPath(r.URL.Path))
	})
}

// writeProblem sends an error that is not one of a route.
func writeProblem(w http.ResponseWriter, err error) {
	id := events.NewRequestID()
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	problemOf(err, id, time.Now(), func(text string) string { return text }).write(w)
}

// refusal records the status and the headers of an answer, without its body.
type refusal struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (r *refusal) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *refusal) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *refusal) Write(p []byte) (int, error) { return len(p), nil }
