package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/httplimit"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/rpc"
)

// front is the HTTP listener of a member of a cluster. It passes requests to the node in this process while that is active, and
// otherwise to the active node.
type front struct {
	origin string
	web    *http.Server
	ended  chan error
	// local serves requests while the node of this process is active.
	local  atomic.Pointer[localFace]
	remote http.Handler
}

// localFace serves requests in this process until ctx ends.
type localFace struct {
	ctx     context.Context //nolint:containedctx // ends when the node is no longer active
	handler http.Handler
	// held waits until the lease of the node is confirmed; false if it is lost, or its context ends.
	held func(context.Context) bool
}

// heldWithin is how long a request waits for the lease: as long as a request over the bus waits for a node.
const heldWithin = 10 * time.Second

// openFront listens at the address of the settings. It returns nil if there is none, or if the address is in use and optional.
// Requests to other nodes use c.
func openFront(ctx context.Context, cfg Config, c *bus.Conn) (*front, error) {
	listener, err := listenHTTP(ctx, cfg)
	if err != nil || listener == nil {
		return nil, err
	}
	f := &front{origin: "http://" + listener.Addr().String(), ended: make(chan error, 1), remote: passOn(c)}
	f.web = httplimit.NewServer(f, cfg.Faces.HTTPLimits)
	f.web.ErrorLog, f.web.ConnContext = slog.NewLogLogger(cfg.logger().Handler(), slog.LevelDebug), bounded
	go func() { f.ended <- f.web.Serve(listener) }()
	return f, nil
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if server.Rebound(r) { // the active node cannot check that
		http.Error(w, "forbidden: the host is not allowed", http.StatusForbidden)
		return
	}
	local := f.local.Load()
	if local == nil {
		f.remote.ServeHTTP(w, r)
		return
	}
	waiting, stop := context.WithTimeout(r.Context(), heldWithin)
	defer stop()
	switch held := local.held(waiting); {
	case !held && waiting.Err() != nil:
		refusePassedOn(w, r, fault.New(fault.Unavailable, "the node does not know whether it is still the active one").
			WithHint("it does not reach the NATS servers; try again at another node"))
		return
	case !held: // another node is active
		f.remote.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(local.ctx, cancel)()
	local.handler.ServeHTTP(w, r.WithContext(ctx))
}

// lead lets the node of this process serve requests while its lease is held. follow ends that, and aborts requests that are
// still open, such as streams.
func (f *front) lead(handler http.Handler, held func(context.Context) bool) (follow func()) {
	ctx, cancel := context.WithCancel(context.Background())
	f.local.Store(&localFace{ctx, handler, held})
	return func() { f.local.Store(nil); cancel() }
}

func (f *front) close(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if f.web.Shutdown(ctx) != nil {
		_ = f.web.Close()
	}
	if err := <-f.ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// passOn returns a proxy to the active node. It uses tunnels over the NATS server, so the nodes need no other connection.
func passOn(c *bus.Conn) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "active", r.In.Host
		},
		Transport: repeatingTransport{&http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return rpc.DialTunnel(ctx, c, bus.TunnelSubject)
			},
		}},
		FlushInterval: -1, // for streams
		ErrorHandler:  refusePassedOn,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
}

// repeatingTransport repeats read-only requests if the active node ends before it answers.
type repeatingTransport struct{ next http.RoundTripper }

// repeatWithin limits how long requests are repeated.
const repeatWithin = 10 * time.Second

// RoundTrip implements http.RoundTripper.
func (t repeatingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	for end := time.Now().Add(repeatWithin); ; {
		answer, err := t.next.RoundTrip(r)
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if err == nil || !reads || time.Now().After(end) || pause.For(r.Context(), 50*time.Millisecond) != nil {
			return answer, err
		}
	}
}

// refusePassedOn answers a request that the active node did not answer.
func refusePassedOn(w http.ResponseWriter, _ *http.Request, err error) {
	f, coded := errors.AsType[*fault.Error](err)
	if !coded {
		f = fault.Wrap(fault.Unavailable, err, "the active node of the cluster has ended before it answered").WithReason(bus.OutcomeUnknown).
			WithHint("it may have been done; look before you repeat it")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(map[string]*fault.Error{"error": f}) // the client may be gone
}
