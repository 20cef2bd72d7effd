package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/rpc"
)

// Serve runs a node until ctx ends, and returns when the node has stopped. With an external NATS server, the node is a member of
// a cluster, and stands by while another node is active.
//
// ready is called once requests can be answered, by this node or by the active node. Its arguments are the address of the bus and
// the URL of MCP. onWait is called if the temporary node of a command holds the data directory. grace limits the time to stop.
func Serve(ctx context.Context, cfg Config, grace time.Duration, onWait func(bus.Holder), ready func(address, mcp string)) error {
	if cfg.Storage.NATSURL != "" {
		return serveMember(ctx, cfg, grace, ready)
	}
	n, err := StartInTurn(ctx, cfg, onWait)
	if err != nil && ctx.Err() != nil { // a stop during the start is not a failure
		return nil
	}
	if err != nil {
		return err
	}
	ready(n.Address(), n.FaceURL())
	<-ctx.Done()
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	return n.Stop(limited)
}

// member is one of the nodes that share a NATS cluster. Its worker and its HTTP listener always run. The rest of the node runs
// only while this node is the active one.
type member struct {
	cfg   Config
	grace time.Duration
	conn  *bus.Conn
	// seat is the membership in the election of the active node.
	seat *election.Member
	// front is the HTTP listener; nil if openFront opened none.
	front *front
}

func serveMember(ctx context.Context, cfg Config, grace time.Duration, ready func(address, mcp string)) error {
	m, err := openMember(ctx, cfg, grace)
	if err != nil {
		return err
	}
	return errors.Join(m.run(ctx, ready), m.close(context.WithoutCancel(ctx)))
}

func openMember(ctx context.Context, cfg Config, grace time.Duration) (*member, error) {
	m := &member{cfg: cfg, grace: grace}
	err := bus.OpenDataDir(cfg.DataDir)
	if err == nil {
		m.conn, err = dial(ctx, cfg, bus.OperatorUser)
	}
	if err == nil {
		m.front, err = openFront(ctx, cfg, m.conn)
	}
	if err == nil {
		m.seat, err = m.join(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, m.close(context.WithoutCancel(ctx)))
	}
	return m, nil
}

func (m *member) join(ctx context.Context) (*election.Member, error) {
	http := ""
	if m.front != nil {
		http = m.front.origin
	}
	return join(ctx, m.cfg, m.conn, http)
}

// join registers this process as a member of the cluster that c is connected to. http is the origin of its HTTP listener.
func join(ctx context.Context, cfg Config, c *bus.Conn, http string) (*election.Member, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	began := time.Now()
	seat, err := election.Join(ctx, election.Config{
		Conn: c.NATS(), Replicas: cfg.Storage.Replicas, Logger: cfg.logger(),
		Self: election.Info{Host: host, PID: os.Getpid(), Version: cfg.Version, Store: bus.StoreVersion, HTTP: http, Since: time.Now().UTC().Truncate(time.Millisecond)},
	})
	return seat, c.Denied(began, err)
}

func (m *member) close(ctx context.Context) error {
	var err error
	if m.front != nil {
		err = m.front.close(ctx)
	}
	if m.seat != nil {
		m.seat.Leave(ctx)
	}
	if m.conn != nil {
		m.conn.Close()
	}
	return err
}

// run runs the worker and takes part in the election of the active node, until ctx ends.
func (m *member) run(ctx context.Context, ready func(address, mcp string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	endpoint, err := serveNodeList(m.conn, m.seat, m.cfg)
	if err != nil {
		return err
	}
	defer func() { _ = closeSoon(endpoint)(context.WithoutCancel(ctx)) }() // never fails
	worker, err := m.openWorker(ctx)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	group.Go(func() {
		if err := worker(ctx); err != nil && ctx.Err() == nil {
			m.cfg.logger().LogAttrs(ctx, slog.LevelError, "the worker of the node has ended; others may take its calls", slog.Any("error", err))
		}
	})
	defer group.Wait()
	defer cancel(nil)
	return m.runElections(ctx, sync.OnceFunc(func() {
		url := ""
		if m.front != nil {
			url = m.front.origin + mcpPath
		}
		ready(m.cfg.Storage.NATSURL, url)
	}))
}

// openWorker prepares the worker of the node. The worker is a client of the active node, which may be any member. For a node
// without a worker, run does nothing.
func (m *member) openWorker(ctx context.Context) (run func(context.Context) error, err error) {
	if m.cfg.Worker.Concurrency < 0 {
		return func(context.Context) error { return nil }, nil
	}
	cfg := m.cfg
	cfg.Faces.Servers.Connect = max(cfg.Faces.Servers.Connect, gateway.OnCall) // only the active node keeps permanent connections
	return openWorker(ctx, cfg, nil)
}

// retryAfter is how long a node waits after it failed to become active, so that another node can acquire the lease.
const retryAfter = time.Second

// runElections campaigns for the lease and runs the node while it holds the lease, until ctx ends. If the very first attempt to
// become active fails, it returns the error, because the node is probably misconfigured; later failures are only logged.
func (m *member) runElections(ctx context.Context, ready func()) error {
	var tokenJobs sync.WaitGroup
	defer tokenJobs.Wait()
	lease, err := m.seat.TryAcquire(ctx)
	for first := true; ; first = false {
		taken := fault.Has(err, fault.Conflict)
		if err == nil {
			err = m.runActive(ctx, lease, ready)
			taken = err != nil && fault.From(err).Reason == bus.Fenced
		}
		if taken {
			m.cfg.logger().LogAttrs(ctx, slog.LevelInfo, "node_stands_by")
			tokenJobs.Go(func() { m.makeLocalToken(ctx) }) // the active node may be slow, or absent
			ready()
			err = nil
		}
		if err != nil && first || ctx.Err() != nil {
			return err
		}
		if err != nil {
			m.cfg.logger().LogAttrs(ctx, slog.LevelError, "node_not_active", slog.Any("error", err))
			_ = pause.For(ctx, retryAfter) // Campaign fails if ctx has ended
		}
		if lease, err = m.seat.Campaign(ctx); err != nil {
			return nil // ctx has ended
		}
	}
}

// makeLocalToken requests a token for the user of this node from the active node, unless the data directory has one. This node
// cannot create the token itself, because it may never be active.
func (m *member) makeLocalToken(ctx context.Context) {
	if _, err := os.Stat(filepath.Join(m.cfg.DataDir, bus.LocalTokenFile)); m.cfg.User == "" || err == nil {
		return
	}
	if _, err := (bus.LocalToken{DataDir: m.cfg.DataDir, User: m.cfg.User}).Rotate(ctx, rpc.NewRemote(m.conn)); err != nil {
		m.cfg.logger().LogAttrs(ctx, slog.LevelWarn, "local_token_not_made", slog.Any("error", err), slog.String("hint", "it is made when this node is active"))
	}
}

// lostGrace limits the time to stop a node that has lost its lease. The log no longer accepts its writes.
const lostGrace = time.Second

// runActive runs the active node until ctx ends or the lease is lost.
func (m *member) runActive(ctx context.Context, lease *election.Lease, ready func()) error {
	began := time.Now()
	cfg := m.cfg
	cfg.Worker.Concurrency, cfg.Worker.OwnTools, cfg.lease, cfg.front, cfg.members = -1, true, lease, m.front, m.seat.Members
	cfg.Storage.NATSURL = m.conn.KnownServers() // the servers in the settings may no longer answer
	n, err := Start(ctx, cfg)
	if err != nil && ctx.Err() != nil { // a stop during the start is not a failure
		m.release(ctx, lease)
		return nil
	}
	if err != nil {
		m.release(ctx, lease)
		return err
	}
	m.cfg.logger().LogAttrs(ctx, slog.LevelInfo, "node_active", slog.Uint64("epoch", n.store.Epoch()), slog.Duration("took", time.Since(began)))
	ready()
	select {
	case <-ctx.Done():
	case <-lease.Lost():
	}
	grace := m.grace
	if ctx.Err() == nil {
		grace = lostGrace
	}
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	err = n.Stop(limited)
	m.cfg.logger().LogAttrs(limited, slog.LevelInfo, "node_stands_by", slog.Uint64("epoch", n.store.Epoch()))
	if ctx.Err() == nil { // the lease is lost, so failed writes are expected
		err = nil
	}
	m.release(ctx, lease)
	return err
}

// release releases the lease, so that another node need not wait for it to expire. A failure is ignored.
func (m *member) release(ctx context.Context, lease *election.Lease) {
	if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
		m.cfg.logger().LogAttrs(ctx, slog.LevelWarn, "lease_not_released", slog.Any("error", err))
	}
}

// acquireWithin is how long a node that cannot stand by waits for the lease. It exceeds the time for which the
// lease of a dead node remains valid.
const acquireWithin = 2 * election.TTL

// acquireLease acquires the lease for a node on an external NATS server, unless cfg contains a lease. It returns CONFLICT if
// another node is active. When the lease is lost, startYielding stops the node.
func (n *Node) acquireLease(ctx context.Context) error {
	if n.server != nil || n.cfg.lease != nil {
		return nil
	}
	c, err := n.connect(ctx, "lease")
	if err != nil {
		return err
	}
	seat, err := join(ctx, n.cfg, c, "")
	if err != nil {
		return err
	}
	n.onStop(func(ctx context.Context) error { seat.Leave(ctx); return nil })
	n.cfg.members = seat.Members
	endpoint, err := serveNodeList(c, seat, n.cfg)
	if err != nil {
		return err
	}
	n.onStop(closeSoon(endpoint))
	within, stop := context.WithTimeout(ctx, acquireWithin)
	defer stop()
	lease, err := seat.Campaign(within)
	switch {
	case ctx.Err() != nil:
		return fault.From(ctx.Err())
	case err != nil:
		return fault.New(fault.Conflict, "another node of the cluster is active").WithHint("use that one, or stand by: orch serve; see orch nodes")
	}
	n.cfg.lease, n.elected = lease, lease
	n.onStop(lease.Release)
	return nil
}
