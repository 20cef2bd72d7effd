package node

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/auditor"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/holds"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/receiver"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/scheduler"
	"github.com/orch-dev/orch/sender"
	"github.com/orch-dev/orch/stats"
	"github.com/orch-dev/orch/traces/exporter"
)

// host is shared by all parts of a node: the NATS server, the store, the orchestrator and the executor.
type host struct {
	cfg      Config
	server   *bus.Server // nil with an external server
	store    *bus.Store
	orch     *orchestrator.Orchestrator
	executor *executor
	// holds are the tasks that retention does not remove.
	holds *holds.Registry
	// scheduler starts the tasks of schedules.
	scheduler *scheduler.Scheduler
	stats     *stats.Projector
	// acts is the audit stream; nil until the store is open.
	acts     atomic.Pointer[auditor.Stream]
	fileActs fileActs
	// sender delivers events to destinations.
	sender *sender.Sender
	// traces sends the spans of tasks to a collector; nil without one.
	traces *exporter.Exporter
	// receiver takes the deliveries of hooks.
	receiver *receiver.Receiver
	// feeds are the streams of an external server, for the receiver; nil with an embedded server, which has none but those of orch.
	feeds receiver.Feeds
	// lists is the index of lists.
	lists orchestrator.Lists
	// feed reports changed tasks to the listeners of the HTTP API; nil if HTTP is not configured.
	feed *rest.Feed
	// meter counts the requests of all clients against the rate limits; nil while the node does not serve MCP over HTTP.
	meter atomic.Pointer[server.Server]
	// web is the HTTP server of a node with its own store, which answers from before the log is read. It is nil if HTTP is not
	// configured, and in a cluster, where face opens a server for tunnels.
	web *webServer
	// origin is the scheme, host and port at which HTTP is served; nil while HTTP is not served.
	origin atomic.Pointer[string]
	// requests is the connection for requests and notices. notices is nil if none are sent.
	requests *bus.Conn
	notices  *noticeQueue
	// elected is the lease that the node has acquired itself; nil if the node has its own server or got the lease from its
	// member.
	elected *election.Lease
	// clock is the clock for the deadlines of tasks.
	clock func() time.Time
	// cleanups undo the steps of Start.
	cleanups cleanups
}

func (h *host) onStop(fn func(context.Context) error) { h.cleanups.add(untilHandover, fn) }

// openBus starts the embedded NATS server. With an external server, it only opens the data directory.
func (h *host) openBus(ctx context.Context) error {
	if h.cfg.Storage.NATSURL != "" {
		return bus.OpenDataDir(h.cfg.DataDir)
	}
	var err error
	h.server, err = bus.StartServer(ctx, bus.ServerConfig{
		DataDir: h.cfg.DataDir, Program: h.cfg.Version, Root: pathguard.Real(h.cfg.Root), Guest: h.cfg.Guest, Passing: h.cfg.Guest != "" && h.cfg.Worker.Concurrency < 0, Durability: bus.Durability(h.cfg.Storage.Durability), Logger: h.cfg.logger(),
		Host: h.cfg.Storage.Host, Port: h.cfg.Storage.Port, ReadNewer: h.cfg.Storage.ReadNewer, MaxStore: h.cfg.Storage.MaxStore, MinFree: h.cfg.Storage.MinFree,
		Locked: h.openWeb, Refused: h.refusedConnection,
	})
	if err == nil {
		h.onStop(h.server.Close)
	}
	switch {
	case h.web != nil && err == nil:
		h.onStop(h.web.close)
	case h.web != nil:
		err = errors.Join(err, h.web.close(ctx))
	}
	return err
}

// connect opens another connection to the NATS server. Each kind of traffic has a separate connection.
func (h *host) connect(ctx context.Context, name string) (*bus.Conn, error) {
	var c *bus.Conn
	var err error
	if h.server != nil {
		c, err = h.server.Connect(ctx)
	} else {
		c, err = bus.Dial(ctx, bus.DialConfig{URL: h.cfg.Storage.NATSURL, CredsFile: h.cfg.Storage.CredsFile, Name: "orch " + name, Lease: h.cfg.lease, Logger: h.cfg.logger()})
	}
	if err == nil {
		h.onStop(func(context.Context) error { c.Close(); return nil })
	}
	return c, err
}

func (h *host) openStore(ctx context.Context) error {
	c, err := h.connect(ctx, "store")
	if err != nil {
		return err
	}
	h.store, err = c.OpenStore(ctx, bus.StoreConfig{
		Durability: bus.Durability(h.cfg.Storage.Durability), Replicas: h.cfg.Storage.Replicas, Logger: h.cfg.logger(),
		ReadNewer: h.cfg.Storage.ReadNewer, Lease: h.cfg.lease, Program: h.cfg.Version,
	})
	if err == nil {
		h.onStop(h.store.Close)
	}
	return err
}

func (h *host) openRequests(ctx context.Context) error {
	var err error
	h.requests, err = h.connect(ctx, "requests")
	return err
}

// forOperator returns the configuration of an endpoint for clients that use the operator's credential.
func (h *host) forOperator() rpc.EndpointConfig {
	return rpc.EndpointConfig{Logger: h.cfg.logger(), Identity: h.Operator(), Refused: h.refusedOnBus}
}

// forCommands returns the configuration of an endpoint for the API. A request may wait as long for the endpoint as for the owner.
func (h *host) forCommands(identity string) rpc.EndpointConfig {
	return rpc.EndpointConfig{Logger: h.cfg.logger(), Identity: identity, Refused: h.refusedOnBus, BeginWithin: orchestrator.BeginWithin}
}

// Operator returns the identity that holders of the operator's credential act as.
func (h *host) Operator() string {
	return cmp.Or(h.cfg.Operator, bus.OwnerOf(h.cfg.DataDir))
}

// closeSoon returns a function that closes an endpoint. The function does not wait for long polls to end.
func closeSoon(e *rpc.Endpoint) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		defer stop()
		return e.Close(ctx)
	}
}

// Address returns the URL at which the CLI and workers find the node, without credentials.
func (h *host) Address() string {
	if h.server == nil {
		return secrets.URL(h.cfg.Storage.NATSURL)
	}
	return h.server.Addr()
}
