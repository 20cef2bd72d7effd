package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/httplimit"
)

// webServer is an HTTP server of a node.
type webServer struct {
	origin   string
	listener net.Listener
	server   *http.Server
	handler  atomic.Pointer[http.Handler]
	// started is closed when the handler of the node that has started is in place.
	started chan struct{}
	begin   sync.Once
	ended   chan error
	end     sync.Once
	err     error
}

// openWeb opens the HTTP server of a node with its own store, if HTTP is configured. From then on probes are told that the node
// starts.
func (h *host) openWeb(ctx context.Context) error {
	listener, err := listenHTTP(ctx, h.cfg)
	if err != nil || listener == nil {
		return err
	}
	h.web = newWebServer(listener, h.cfg)
	h.web.serve(h.web.startingHandler())
	return nil
}

// newWebServer returns a server that accepts connections and answers nothing yet.
func newWebServer(listener net.Listener, cfg Config) *webServer {
	s := &webServer{origin: "http://" + listener.Addr().String(), listener: listener, started: make(chan struct{}), ended: make(chan error, 1)}
	s.server = httplimit.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*s.handler.Load()).ServeHTTP(w, r)
	}), cfg.Faces.limits())
	s.server.ErrorLog, s.server.ConnContext = slog.NewLogLogger(cfg.logger().Handler(), slog.LevelDebug), bounded
	return s
}

// serve passes all later requests to a handler.
func (s *webServer) serve(handler http.Handler) {
	s.handler.Store(&handler)
	s.begin.Do(func() {
		go func() { s.ended <- s.server.Serve(s.listener) }()
	})
}

// close stops the server. Requests that are still open after a moment are aborted. It is idempotent.
func (s *webServer) close(ctx context.Context) error {
	s.end.Do(func() {
		s.begin.Do(func() { s.ended <- s.listener.Close() })
		ctx, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		defer stop()
		if s.server.Shutdown(ctx) != nil {
			_ = s.server.Close()
		}
		if err := <-s.ended; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.err = err
		}
	})
	return s.err
}

// serveStarted passes all later requests, and those that wait for the start, to the handler of the node. It is called once.
func (s *webServer) serveStarted(handler http.Handler) {
	s.serve(handler)
	close(s.started)
}

// startPatience is how long a request waits for the start of the node.
const startPatience = 30 * time.Second

// startingHandler answers the probes of a node that starts. All other requests wait until the node has started: to a client that comes
// back after a restart, 503 would be the answer to its request, and many MCP clients then give up.
func (s *webServer) startingHandler() http.Handler {
	mux := http.NewServeMux()
	addProbes(mux, func(context.Context) string { return reasonStarting })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), startPatience)
		defer cancel()
		select {
		case <-s.started:
			(*s.handler.Load()).ServeHTTP(w, r)
		case <-ctx.Done():
			writeUnavailable(w, r, fault.New(fault.Unavailable, "the node is starting").WithReason(reasonStarting).WithHint("try again in a moment"))
		}
	})
	return mux
}
