package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/internal/httplimit"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/rpc"
)

// front is the HTTP listener of a member of a cluster. While the node of this process is active, front passes requests to it;
// otherwise it forwards them to the active node.
type front struct {
	origin string
	web    *http.Server
	ended  chan error
	// local serves requests while the node of this process is active; otherwise it is nil. remote forwards requests.
	local  atomic.Pointer[localFace]
	remote http.Handler
	// active sends a request to the active node once.
	active  http.RoundTripper
	metrics standbyMetrics
}

// localFace serves requests in this process until ctx ends.
type localFace struct {
	ctx     context.Context //nolint:containedctx // ends when the node is no longer active
	handler http.Handler
	// held waits until the lease of the node is confirmed. It returns false if the lease is lost or the context ends.
	held func(context.Context) bool
}

// heldWithin is how long a request waits for the confirmation of the lease. Requests over the bus wait equally long for a node.
const heldWithin = 10 * time.Second

// openFront listens at the address of the settings. It returns nil if the settings have no address, or if the address is in use
// and optional. It forwards requests to the active node over c.
func openFront(ctx context.Context, cfg Config, c *bus.Conn) (*front, error) {
	listener, err := listenHTTP(ctx, cfg)
	if err != nil || listener == nil {
		return nil, err
	}
	active := tunnelTransport(c)
	f := &front{origin: "http://" + listener.Addr().String(), ended: make(chan error, 1), remote: proxyToActive(active), active: active}
	f.metrics.version = cfg.Version
	f.web = httplimit.NewServer(f, cfg.Faces.limits())
	f.web.ErrorLog, f.web.ConnContext = slog.NewLogLogger(cfg.logger().Handler(), slog.LevelDebug), bounded
	go func() { f.ended <- f.web.Serve(listener) }()
	return f, nil
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if server.Rebound(r) && !httpapi.IsDelivery(r.URL.Path) { // the active node does not see the local address of the connection, so it cannot check that
		http.Error(w, "forbidden: the host is not allowed", reboundStatus(r.URL.Path))
		return
	}
	if f.serveProbe(w, r) {
		return
	}
	local := f.local.Load()
	if local == nil && r.URL.Path == rest.MetricsPath {
		f.serveMetrics(w, r)
		return
	}
	if local == nil {
		f.remote.ServeHTTP(w, r)
		return
	}
	waiting, stop := context.WithTimeout(r.Context(), heldWithin)
	defer stop()
	switch held := local.held(waiting); {
	case !held && waiting.Err() != nil:
		writeUnavailable(w, r, fault.New(fault.Unavailable, "the node does not know whether it is still the active one").
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

// reboundStatus returns the status for a request to a foreign host name: 421 for the HTTP API and the page, 403 for other paths.
func reboundStatus(path string) int {
	if strings.HasPrefix(path, rest.Prefix+"/") || strings.HasPrefix(path, rest.Pages) {
		return http.StatusMisdirectedRequest
	}
	return http.StatusForbidden
}

// serveLocally passes requests to handler while the lease of the node is held. end stops that, and aborts open requests such as
// streams.
func (f *front) serveLocally(handler http.Handler, held func(context.Context) bool) (end func()) {
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

// tunnelTransport returns a transport to the active node. It uses tunnels over the NATS server, so the nodes need no direct
// connection.
func tunnelTransport(c *bus.Conn) http.RoundTripper {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return rpc.DialTunnel(ctx, c, bus.TunnelSubject)
		},
	}
}

// proxyToActive returns a proxy to the active node.
func proxyToActive(active http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "active", r.In.Host
		},
		Transport:     repeatingTransport{active},
		FlushInterval: -1, // for streams
		ErrorHandler:  writeUnavailable,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
}

// repeatingTransport repeats GET and HEAD requests if the active node ends before it answers.
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

// writeUnavailable answers a request with status 503, because the active node did not answer it.
func writeUnavailable(w http.ResponseWriter, _ *http.Request, err error) {
	f, coded := errors.AsType[*fault.Error](err)
	if !coded {
		f = fault.Wrap(fault.Unavailable, err, "the active node of the cluster has ended before it answered").WithReason(bus.OutcomeUnknown).
			WithHint("the request may have been executed; check before you repeat it")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(map[string]*fault.Error{"error": f}) // the client may be gone
}
