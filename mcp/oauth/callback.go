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

// callback is an HTTP server on a loopback address. The authorization server redirects the browser to it with the answer.
type callback struct {
	// redirect is the URL to which the browser is redirected.
	redirect string
	// answers receives the parameters of the first answer.
	answers chan url.Values
	server  *http.Server
	// done is closed when the server has ended.
	done chan struct{}
}

// listen starts a callback server on a free port. It returns UNAVAILABLE if that fails.
func listen(ctx context.Context) (*callback, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "no port of this machine can be listened on")
	}
	const path = "/callback"
	c := &callback{redirect: "http://" + listener.Addr().String() + path, answers: make(chan url.Values, 1), done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path, c.handle)
	const timeout = 10 * time.Second
	c.server = &http.Server{Handler: mux, ReadTimeout: timeout, WriteTimeout: timeout, MaxHeaderBytes: maxHeader}
	go func() {
		defer close(c.done)
		_ = c.server.Serve(listener) // returns when close is called
	}()
	return c, nil
}

// handle receives an answer. It refuses all but the first.
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

// await waits for the answer and returns its parameters. It returns TIMEOUT or CANCELLED.
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

// close stops the server. It waits a little for the response to the browser.
func (c *callback) close(ctx context.Context) {
	const grace = time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := c.server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		_ = c.server.Close() // a connection is still open
	}
	<-c.done
}
