package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/internal/uptime"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/work"
)

// This file contains the handover between two nodes. The temporary node of a command (a guest) hands its data directory over to
// a permanent node, such as that of orch serve. A node in a cluster stops when it has lost its lease. In both cases the running
// calls continue in the old process, and the new node renews their leases.
// checkEvery is the interval at which a guest checks whether another node waits for its data directory.
const checkEvery = 250 * time.Millisecond

// waitToYield returns a function that blocks until the node has to hand over to another node. It returns nil for a node that
// never hands over, and for the node of a member, because member stops it.
func (n *Node) waitToYield() func(context.Context) error {
	switch {
	case n.elected != nil:
		return n.waitUntilLost
	case n.cfg.Guest != "" && n.server != nil:
		return func(ctx context.Context) error { return waitUntilWanted(ctx, n.cfg.DataDir) }
	default:
		return nil
	}
}

// waitUntilLost blocks until the node has lost its lease.
func (n *Node) waitUntilLost(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-n.elected.Lost():
		return nil
	}
}

// startYielding starts to wait for the handover, and then hands over.
func (n *Node) startYielding(ctx context.Context) error {
	wait := n.waitToYield()
	if wait == nil {
		return nil
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if wait(run) == nil {
			n.handOver(context.WithoutCancel(ctx))
		}
	}()
	n.endYielding = func() { stop(); <-ended }
	return nil
}

// waitUntilWanted blocks until another node waits for a data directory.
func waitUntilWanted(ctx context.Context, dir string) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if bus.Wanted(dir) {
			return nil
		}
	}
}

// handOverWithin limits how long the handover may take to stop the parts of the node.
const handOverWithin = 10 * time.Second

// handOver ends everything in the node except what runs calls.
func (n *Node) handOver(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, handOverWithin)
	defer stop()
	n.handedOver.Store(true)
	n.calls.handOver()
	var err error
	if n.server != nil {
		err = n.server.RecordWorker("") // the next node must not assume that this worker has ended
	}
	err = errors.Join(err, n.cleanups.runFor(ctx, untilHandover))
	n.cfg.logger().LogAttrs(ctx, slog.LevelInfo, "the node was handed over; its calls go on", slog.Any("error", err))
	if n.cfg.HandedOver != nil {
		n.cfg.HandedOver()
	}
}

// HandedOver reports whether another node has taken over, or is about to. Requests to this node then return UNAVAILABLE.
func (n *Node) HandedOver() bool { return n.handedOver.Load() }

// StartInTurn is Start for a permanent node. If the temporary node of a command holds the data directory, it calls onWait with
// the holder, waits for the handover, and then starts the node. It returns CONFLICT if another permanent node holds the
// directory or already waits for it.
func StartInTurn(ctx context.Context, cfg Config, onWait func(bus.Holder)) (*Node, error) {
	n, err := Start(ctx, cfg)
	holder := bus.ReadHolder(cfg.DataDir)
	if !inUse(err) || holder.Guest == "" {
		return n, err
	}
	// The turn is the right to open the data directory next.
	turn, err := bus.ClaimTurn(ctx, cfg.DataDir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = turn.Release() }() // the kernel releases it when the process ends
	onWait(holder)
	return startWhenFree(ctx, cfg)
}

// inUse reports whether another process holds the data directory.
func inUse(err error) bool {
	return fault.Has(err, fault.Conflict) && fault.From(err).Reason == bus.DataDirInUse
}

// turnEvery is the interval at which a node checks whether the data directory is free.
const turnEvery = 100 * time.Millisecond

// startWhenFree starts a node once the data directory is free. It returns CONFLICT if a permanent node has opened the directory.
func startWhenFree(ctx context.Context, cfg Config) (*Node, error) {
	for {
		n, err := Start(ctx, cfg)
		if !inUse(err) || bus.ReadHolder(cfg.DataDir).Guest == "" {
			return n, err
		}
		if err := pause.For(ctx, turnEvery); err != nil {
			return nil, fault.From(err)
		}
	}
}

// callsOwner is the work.Owner for the worker of a node that may hand over. It forwards to the local owner, and after the
// handover to the owner in the other node, which assigns no new calls to this worker.
type callsOwner struct {
	local work.Owner
	// dial connects to the other node; UNAVAILABLE while it starts.
	dial       func(ctx context.Context) (*bus.Conn, error)
	handedOver atomic.Bool
	// handedOverAt is the time of the handover, as a value of uptime.Now.
	handedOverAt atomic.Int64

	mu     sync.Mutex // guards the fields below
	conn   *bus.Conn
	remote *rpc.Remote
}

var _ work.Owner = (*callsOwner)(nil)

func (c *callsOwner) handOver() {
	if c != nil {
		c.handedOverAt.Store(int64(uptime.Now()))
		c.handedOver.Store(true)
	}
}

// owner returns the current owner.
func (c *callsOwner) owner(ctx context.Context) (work.Owner, error) {
	if !c.handedOver.Load() {
		return c.local, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remote != nil {
		return c.remote, nil
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.conn, c.remote = conn, rpc.NewRemote(conn)
	return c.remote, nil
}

// uptime returns the time since the handover. Before the handover it returns 0: worker and owner are in the same process, so
// the worker cannot miss time that its owner counts.
func (c *callsOwner) uptime() time.Duration {
	if !c.handedOver.Load() {
		return 0
	}
	return uptime.Now() - time.Duration(c.handedOverAt.Load())
}

func (c *callsOwner) close(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
	}
	return nil
}

// Poll implements work.Owner. After the handover it forwards only the report that the worker stops; any other poll blocks until
// ctx ends.
func (c *callsOwner) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	if c.handedOver.Load() && (p.Free > 0 || p.Wait > 0) {
		<-ctx.Done()
		return work.Batch{}, fault.From(ctx.Err())
	}
	owner, err := c.owner(ctx)
	if err != nil {
		return work.Batch{}, err
	}
	return owner.Poll(ctx, p)
}

// Start implements work.Owner.
func (c *callsOwner) Start(ctx context.Context, s work.Started) error {
	owner, err := c.owner(ctx)
	if err != nil {
		return err
	}
	return owner.Start(ctx, s)
}

// Heartbeat implements work.Owner.
func (c *callsOwner) Heartbeat(ctx context.Context, b work.Heartbeat) (work.HeartbeatReply, error) {
	owner, err := c.owner(ctx)
	if err != nil {
		return work.HeartbeatReply{}, err
	}
	return owner.Heartbeat(ctx, b)
}

// Report implements work.Owner.
func (c *callsOwner) Report(ctx context.Context, o work.Outcome) error {
	owner, err := c.owner(ctx)
	if err != nil {
		return err
	}
	return owner.Report(ctx, o)
}
