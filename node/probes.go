package node

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
)

// The paths of the probes for supervisors and load balancers. They need no token, and tell nothing but a reason code.
const (
	// livePath answers 200 while the process serves HTTP.
	livePath = "/healthz"
	// readyPath answers 200 if the node accepts tasks, and otherwise 503.
	readyPath = "/readyz"
)

// The reasons why a node is not ready. If its store refuses commits, the reason is the code of that error, or its reason.
const (
	reasonStarting = "STARTING"
	// reasonNoActive means that no node of the cluster is active.
	reasonNoActive = "NO_ACTIVE_NODE"
	// reasonLease means that the node does not know whether it is still the active one of its cluster.
	reasonLease = "LEASE_UNCONFIRMED"
)

// probeWithin limits how long a probe waits for the store or for the active node of a cluster. Supervisors wait for a few seconds.
const probeWithin = 2 * time.Second

// addProbes adds the handlers of the probes. unready returns why the node is not ready; empty if it is.
func addProbes(mux *http.ServeMux, unready func(context.Context) string) {
	mux.Handle(livePath, probe(func(context.Context) string { return "" }))
	mux.Handle(readyPath, probe(unready))
}

// probe returns the handler of a probe. reason returns why the answer is 503; empty for 200.
func probe(reason func(context.Context) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case server.Rebound(r):
			http.Error(w, "forbidden: the host is not allowed", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "a probe takes GET", http.StatusMethodNotAllowed)
		default:
			ctx, stop := context.WithTimeout(r.Context(), probeWithin)
			defer stop()
			writeProbe(w, reason(ctx))
		}
	})
}

// probeAnswer is the answer to a probe.
type probeAnswer struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// writeProbe answers a probe.
func writeProbe(w http.ResponseWriter, reason string) {
	answer, status := probeAnswer{Status: "ok"}, http.StatusOK
	if reason != "" {
		answer, status = probeAnswer{"unavailable", reason}, http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// unready returns why the node does not accept tasks; empty if it does.
func (h *host) unready(ctx context.Context) string {
	refusing := h.orch.Refusing()
	if refusing == nil {
		s, err := h.store.Health(ctx)
		if refusing = s.Refusing; err != nil {
			refusing = fault.From(err)
		}
	}
	switch {
	case refusing == nil:
		return ""
	case refusing.Reason != "":
		return refusing.Reason
	default:
		return string(refusing.Code)
	}
}

// serveProbe answers a probe of a member of a cluster, and returns false for other requests. A member is ready if the active node
// is, because it forwards all requests to it.
func (f *front) serveProbe(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case livePath:
		probe(func(context.Context) string { return "" }).ServeHTTP(w, r)
	case readyPath:
		f.serveReady(w, r)
	default:
		return false
	}
	return true
}

// serveReady answers whether the active node is ready: by the node of this process, or by another one.
func (f *front) serveReady(w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithTimeout(r.Context(), probeWithin)
	defer stop()
	if local := f.local.Load(); local != nil {
		switch held := local.held(ctx); {
		case held:
			local.handler.ServeHTTP(w, r)
			return
		case ctx.Err() != nil:
			writeProbe(w, reasonLease)
			return
		}
	}
	probe(func(context.Context) string { return f.unready(ctx) }).ServeHTTP(w, r)
}

// unready returns why the active node, which is not in this process, is not ready.
func (f *front) unready(ctx context.Context) string {
	answer, err := f.ask(ctx, http.MethodGet, readyPath, nil)
	if err != nil {
		return reasonNoActive
	}
	defer func() { _ = answer.Body.Close() }()
	var told probeAnswer
	if answer.StatusCode == http.StatusOK {
		return ""
	}
	const longest = 1 << 10
	if json.NewDecoder(io.LimitReader(answer.Body, longest)).Decode(&told) != nil || told.Reason == "" {
		return reasonNoActive
	}
	return told.Reason
}

// ask sends a request without a body to the active node. The caller must close the body of the answer.
func (f *front) ask(ctx context.Context, verb, path string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, verb, "http://active"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if header != nil {
		r.Header = header
	}
	return f.active.RoundTrip(r)
}
