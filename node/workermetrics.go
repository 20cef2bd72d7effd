package node

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/metrics"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/internal/httplimit"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/worker"
)

// workerFace serves the metrics of a worker in a process of its own. A nil one serves nothing.
type workerFace struct {
	cfg      Config
	listener net.Listener
	server   *http.Server
	ended    chan struct{}
}

// openWorkerFace listens at the address of the settings. It returns nil if they have none.
func openWorkerFace(ctx context.Context, cfg Config) (*workerFace, error) {
	address := cfg.Worker.Metrics
	if address == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	if err := checkLoopback(address); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "nothing can listen at "+address).WithField("metrics").WithHint("choose another address")
	}
	cfg.logger().LogAttrs(ctx, slog.LevelInfo, "worker_metrics", slog.String("url", "http://"+l.Addr().String()+rest.MetricsPath))
	return &workerFace{cfg: cfg, listener: l, ended: make(chan struct{})}, nil
}

// checkLoopback returns an error unless an address is one of loopback: whoever may connect may read the metrics.
func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fault.New(fault.InvalidFormat, "%q is not an address", address).WithField("metrics").WithHint("such as 127.0.0.1:9424")
	}
	if !netguard.IsLoopback(host) {
		return fault.New(fault.ValidationError, "%q is not an address of loopback", address).WithField("metrics").
			WithHint("such as 127.0.0.1:9424; for other machines put a proxy before it")
	}
	return nil
}

// serve begins to answer.
func (f *workerFace) serve(w *worker.Worker, c *bus.Conn) {
	if f == nil {
		return
	}
	const headers, answer, idle, most = 5 * time.Second, 10 * time.Second, 2 * time.Minute, 16 << 10
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+rest.MetricsPath, func(rw http.ResponseWriter, r *http.Request) { f.write(rw, r, w, c) })
	f.server = httplimit.NewServer(mux, httplimit.Limits{Header: headers, Body: answer, Idle: idle, Write: answer})
	f.server.MaxHeaderBytes, f.server.ErrorLog = most, slog.NewLogLogger(f.cfg.logger().Handler(), slog.LevelDebug)
	go func() {
		defer close(f.ended)
		_ = f.server.Serve(f.listener) // until close
	}()
}

// write answers a request.
func (f *workerFace) write(rw http.ResponseWriter, r *http.Request, w *worker.Worker, c *bus.Conn) {
	if server.Rebound(r) {
		http.Error(rw, "the node listens at loopback, and the Host is another name", http.StatusMisdirectedRequest)
		return
	}
	began, figures := time.Now(), w.Figures()
	times, connected := c.Reconnects()
	s := metrics.Snapshot{Version: f.cfg.Version, At: began, Process: metrics.ReadProcess(processStarted()), Worker: &metrics.Worker{
		Slots: figures.Slots, Running: figures.Running, Unreported: figures.Unreported, Abandoned: figures.Abandoned, Ended: figures.Ended, Took: figures.Took,
		ReportFailures: figures.ReportFailures, PollFailures: figures.PollFailures, Reconnects: times, Connected: connected,
	}}
	rw.Header().Set("Content-Type", metrics.ContentType)
	rw.Header().Set("Cache-Control", "no-store")
	_, _ = rw.Write(metrics.WorkerText(&s)) // the client may be gone
}

// close stops answering.
func (f *workerFace) close() {
	if f == nil {
		return
	}
	if f.server == nil {
		_ = f.listener.Close() // nothing was read from it
		return
	}
	_ = f.server.Close() // closes the listener and all connections
	<-f.ended
}
