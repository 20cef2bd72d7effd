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

// This file holds how the node of a command gives its data directory up for one that stays, such as that of orch serve, and gives way on a
// cluster when it has lost its lease.
// The calls that run go on in the process of the command, under their leases at the other node.

// lookEvery is how often a guest looks whether a node waits for its data directory.
const lookEvery = 250 * time.Millisecond

// untilItGivesWay returns what waits until the node has to give way to another one; nil when it never has to, or its member sees to it.
func (n *Node) untilItGivesWay() func(context.Context) error {
	switch {
	case n.elected != nil:
		return n.waitUntilLost
	case n.cfg.Guest != "" && n.server != nil:
		return func(ctx context.Context) error { return waitUntilWanted(ctx, n.cfg.DataDir) }
	default:
		return nil
	}
}

// waitUntilLost returns when the node has lost the lease that it took.
func (n *Node) waitUntilLost(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-n.elected.Lost():
		return nil
	}
}

// startYielding lets the node hand over when it has to give way.
func (n *Node) startYielding(ctx context.Context) error {
	wait := n.untilItGivesWay()
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

// waitUntilWanted returns when a node waits for a data directory.
func waitUntilWanted(ctx context.Context, dir string) error {
	tick := time.NewTicker(lookEvery)
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

// handOverWithin is how long the parts of a node that gives way may take to end, where they wait for others.
const handOverWithin = 10 * time.Second

// handOver ends all of the node but what runs calls.
func (n *Node) handOver(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, handOverWithin)
	defer stop()
	n.handedOver.Store(true)
	n.calls.handOver()
	var err error
	if n.server != nil {
		err = n.server.RecordWorker("") // it has not ended
	}
	err = errors.Join(err, n.ends.runFor(ctx, untilHandover))
	n.cfg.logger().LogAttrs(ctx, slog.LevelInfo, "the node was handed over; its calls go on", slog.Any("error", err))
	if n.cfg.HandedOver != nil {
		n.cfg.HandedOver()
	}
}

// HandedOver reports whether another node has taken over, or is about to. What is asked of this one is UNAVAILABLE then.
func (n *Node) HandedOver() bool { return n.handedOver.Load() }

// StartInTurn is Start for a node that stays. When a command holds the data directory, waits is told, and the node starts
// as soon as the command has handed over. CONFLICT when another node that stays holds it, or waits already.
func StartInTurn(ctx context.Context, cfg Config, waits func(bus.Holder)) (*Node, error) {
	n, err := Start(ctx, cfg)
	holder := bus.ReadHolder(cfg.DataDir)
	if !inUse(err) || holder.Guest == "" {
		return n, err
	}
	turn, err := bus.ClaimTurn(ctx, cfg.DataDir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = turn.Release() }() // the kernel does so at the latest when the process ends
	waits(holder)
	return startSoon(ctx, cfg)
}

// inUse reports whether another process holds the data directory.
func inUse(err error) bool {
	return fault.Has(err, fault.Conflict) && fault.From(err).Reason == bus.DataDirInUse
}

// turnEvery is how often a node tries whether the data directory is free.
const turnEvery = 100 * time.Millisecond

// startSoon starts a node once the data directory is free, unless a node that stays has taken it.
func startSoon(ctx context.Context, cfg Config) (*Node, error) {
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

// callsOwner is the owner that the worker of a guest speaks to: the one in this process, and after the handover the one
// of the node that has taken over. It takes no more calls there.
type callsOwner struct {
	local work.Owner
	// dial connects to the other node; UNAVAILABLE while it starts.
	dial func(ctx context.Context) (*bus.Conn, error)
	gone atomic.Bool // set by the handover
	// since is when that was, in uptime.
	since atomic.Int64

	mu     sync.Mutex // guards what follows
	conn   *bus.Conn
	remote *rpc.Remote
}

var _ work.Owner = (*callsOwner)(nil)

func (c *callsOwner) handOver() {
	if c != nil {
		c.since.Store(int64(uptime.Now()))
		c.gone.Store(true)
	}
}

// owner returns the owner that answers now.
func (c *callsOwner) owner(ctx context.Context) (work.Owner, error) {
	if !c.gone.Load() {
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

// uptime is the time since the handover: until then the worker stands still with its owner alone.
func (c *callsOwner) uptime() time.Duration {
	if !c.gone.Load() {
		return 0
	}
	return uptime.Now() - time.Duration(c.since.Load())
}

func (c *callsOwner) close(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
	}
	return nil
}

// Poll implements work.Owner. After the handover it only says that the worker stops.
func (c *callsOwner) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	if c.gone.Load() && (p.Free > 0 || p.Wait > 0) {
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
