// Package httplimit bounds how long a client of an HTTP server may take to send headers and body, to send the next
// request, and to read each part of the response. The total duration of a response is not limited, so that streams and
// long polls continue while their clients read.
package httplimit

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// DefaultHeader bounds how long the headers of a request may take.
	DefaultHeader = 10 * time.Second
	// DefaultBody bounds how long headers and body of a request may take together. It does not apply when a handler
	// responds without reading the body.
	DefaultBody = 45 * time.Second
	// DefaultIdle is how long a connection is kept for its next request.
	DefaultIdle = 2 * time.Minute
	// DefaultWrite is how long a client may take to read writePart bytes.
	DefaultWrite = 15 * time.Second
	// MaxHeader bounds the headers of a request, in bytes.
	MaxHeader = 64 << 10
)

const (
	// unreadTime and maxUnread bound how long and how far, in bytes, the server drains an unread body before it responds.
	unreadTime = time.Second
	maxUnread  = 16 << 20
	// writePart is how many bytes are written under one deadline.
	writePart = 64 << 10
	// slowest is the minimum rate at which a client must read the data of one write, in bytes per second. The client
	// has twice Limits.Write in addition.
	slowest = 64 << 10
)

// Limits are the time limits for a client. A zero field means its default.
type Limits struct {
	// Header is the limit for the headers of a request, Body for headers and body, Idle for the time until the next
	// request of a connection, and Write for each part of a response.
	Header, Body, Idle, Write time.Duration
	// Refuse answers a request with a header that is not acceptable. Default: a line of text.
	Refuse func(w http.ResponseWriter, status int, header, reason string)
}

// refuse is the default of Limits.Refuse.
func refuse(w http.ResponseWriter, status int, _, reason string) { http.Error(w, reason, status) }

func (l Limits) withDefaults() Limits {
	if l.Refuse == nil {
		l.Refuse = refuse
	}
	return Limits{
		Header: cmp.Or(l.Header, DefaultHeader), Body: cmp.Or(l.Body, DefaultBody),
		Idle: cmp.Or(l.Idle, DefaultIdle), Write: cmp.Or(l.Write, DefaultWrite), Refuse: l.Refuse,
	}
}

// NewServer returns a server for next that enforces the limits.
func NewServer(next http.Handler, l Limits) *http.Server {
	l = l.withDefaults()
	return &http.Server{
		Handler: Handler(next, l), MaxHeaderBytes: MaxHeader,
		ReadHeaderTimeout: l.Header, ReadTimeout: l.Body, IdleTimeout: l.Idle, WriteTimeout: l.Write,
	}
}

// Handler returns a handler that enforces the limits for bodies and writes around next. next may set deadlines only for the parts of a body
// that it reads slowly on purpose.
func Handler(next http.Handler, l Limits) http.Handler {
	l = l.withDefaults()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, header, reason := rejectAmbiguous(r); status != 0 {
			l.Refuse(w, status, header, reason)
			return
		}
		control := http.NewResponseController(w)
		out := &writer{ResponseWriter: w, control: control, perPart: l.Write}
		out.extend(l.Body + l.Write) // for "100 Continue"
		if r.Body == nil || r.Body == http.NoBody {
			_ = control.SetReadDeadline(time.Time{})
			next.ServeHTTP(out, r)
			out.extend(l.Write)
			return
		}
		_ = control.SetReadDeadline(time.Now().Add(l.Body))
		in := &body{ReadCloser: r.Body, control: control}
		r.Body = in
		next.ServeHTTP(out, r)
		if !in.ended.Load() {
			_ = control.SetReadDeadline(time.Now().Add(min(unreadTime, l.Body)))
			drain(in, r)
		}
		out.extend(l.Write) // the server sends what it has buffered
	})
}

// drain reads the rest of a body that the handler has not read. A connection that is closed with unread data is reset, and the client
// may lose the response. A client that waits for "100 Continue" has not sent the body.
func drain(in io.Reader, r *http.Request) {
	if r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, in, maxUnread) // the response says what was wrong
	}
}

// rejectAmbiguous returns the status, the header and the reason for refusing a request: one that a proxy could interpret
// differently, or one with an encoded body, which no handler reads. It returns status 0 for an acceptable request.
func rejectAmbiguous(r *http.Request) (status int, header, reason string) {
	switch coding := r.Header.Get("Content-Encoding"); {
	case len(r.Header.Values("Authorization")) > 1:
		return http.StatusBadRequest, "Authorization", "the request has more than one Authorization header"
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return http.StatusUnsupportedMediaType, "Content-Encoding", "the body must not be encoded"
	default:
		return 0, "", ""
	}
}

// body is the body of a request. After the body has arrived completely, it removes the read deadline.
type body struct {
	io.ReadCloser

	control *http.ResponseController
	// ended is true after the end of the body or an error. It is atomic because a reverse proxy may still read after
	// the handler has returned.
	ended atomic.Bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && !b.ended.Load() {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	if err != nil {
		b.ended.Store(true)
	}
	return n, err
}

// writer is a response writer that closes the connection if the client does not read in time.
type writer struct {
	http.ResponseWriter

	control *http.ResponseController
	perPart time.Duration
}

// extend sets the write deadline to d from now.
func (w *writer) extend(d time.Duration) { _ = w.control.SetWriteDeadline(time.Now().Add(d)) }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	w.extend(w.perPart)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	last := time.Now().Add(2*w.perPart + time.Duration(len(p))*time.Second/slowest)
	for n := 0; ; {
		part := p[n:min(n+writePart, len(p))]
		w.extend(min(w.perPart, time.Until(last)))
		m, err := w.ResponseWriter.Write(part)
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// ReadFrom implements io.ReaderFrom. It writes in parts, with the same deadlines as a single Write of all data.
func (w *writer) ReadFrom(from io.Reader) (n int64, err error) {
	begin, part := time.Now(), make([]byte, writePart)
	for {
		m, end := io.ReadFull(from, part)
		last := begin.Add(2*w.perPart + time.Duration(n+int64(m))*time.Second/slowest)
		w.extend(min(w.perPart, time.Until(last)))
		m, err = w.ResponseWriter.Write(part[:m])
		n += int64(m)
		switch {
		case err != nil:
			return n, err
		case end == io.EOF || end == io.ErrUnexpectedEOF:
			return n, nil
		case end != nil:
			return n, end
		}
	}
}

// FlushError sends what was written, for http.ResponseController.
func (w *writer) FlushError() error {
	w.extend(w.perPart)
	return w.control.Flush()
}

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
