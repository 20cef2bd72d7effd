package oauth

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/orch-dev/orch/fault"
)

// callback is a server on this machine for the redirect with the answer.
type callback struct {
	// redirect is the URL for the browser.
	redirect string
	answers  chan url.Values
	server   *http.Server
	over     chan struct{}
}

// listen listens on a free port of the loopback address. UNAVAILABLE.
func listen(ctx context.Context) (*callback, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "no port of this machine can be listened on")
	}
	const path = "/callback"
	c := &callback{redirect: "http://" + listener.Addr().String() + path, answers: make(chan url.Values, 1), over: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path, c.handle)
	const slow = 10 * time.Second
	c.server = &http.Server{Handler: mux, ReadTimeout: slow, WriteTimeout: slow, MaxHeaderBytes: maxHeader}
	go func() {
		defer close(c.over)
		_ = c.server.Serve(listener) // it is closed after the answer
	}()
	return c, nil
}

// handle receives the first answer.
func (c *callback) handle(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'", "Content-Type": "text/plain; charset=utf-8",
		"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
	} {
		w.Header().Set(name, value)
	}
	select {
	case c.answers <- r.URL.Query():
		_, _ = io.WriteString(w, "orch has the answer. You can close this window; the terminal tells how it went.\n")
	default:
		http.Error(w, "orch has an answer already.", http.StatusConflict)
	}
}

// await returns the parameters of the answer. TIMEOUT, CANCELLED.
func (c *callback) await(ctx context.Context, within time.Duration) (url.Values, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case answer := <-c.answers:
		return answer, nil
	case <-timer.C:
		return nil, fault.New(fault.Timeout, "nobody has logged in within %s", within)
	case <-ctx.Done():
		return nil, fault.From(ctx.Err())
	}
}

// close stops the server after the browser has its page.
func (c *callback) close(ctx context.Context) {
	const goodbye = time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if err := c.server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		_ = c.server.Close() // a connection is still open
	}
	<-c.over
}
