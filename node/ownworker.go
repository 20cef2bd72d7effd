package node

import (
	"context"
	"log/slog"
	"slices"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// queues returns the queues that the node's own worker serves; none for a node without one.
func (n *Node) queues() []string {
	switch {
	case n.cfg.Worker.Concurrency < 0 && !n.cfg.Worker.OwnTools:
		return nil
	case n.cfg.Worker.Concurrency < 0:
		return []string{work.NodeQueue}
	case len(n.cfg.Worker.Queues) == 0:
		return []string{work.DefaultQueue, work.NodeQueue}
	default:
		return append(slices.Clone(n.cfg.Worker.Queues), work.NodeQueue)
	}
}

func (n *Node) startWorker(ctx context.Context) error {
	queues := n.queues()
	if len(queues) == 0 {
		return nil
	}
	name := worker.UniqueName()
	cfg := worker.Config{Name: name, Queues: queues, WithOwner: n.server != nil}
	w, err := n.executor.worker(n.workOwner(&cfg), cfg)
	if err != nil {
		return err
	}
	if n.server != nil {
		if err := n.server.RecordWorker(name); err != nil {
			return err
		}
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := w.Run(run)
		if err != nil && run.Err() == nil {
			n.cfg.logger().LogAttrs(run, slog.LevelError, "the worker of the node has ended; others may take its calls", slog.Any("error", err))
		}
		ended <- err
	}()
	n.cleanups.add(untilStop, func(context.Context) error { stop(); return <-ended })
	return nil
}

// workOwner returns the owner for the worker of the node. If the node may hand over, it returns a callsOwner and adapts cfg:
// the worker then outlives the owner in this process.
func (n *Node) workOwner(cfg *worker.Config) work.Owner {
	if n.waitToYield() == nil {
		return n.orch
	}
	dial := func(ctx context.Context) (*bus.Conn, error) { return dial(ctx, n.cfg, bus.WorkerUser) }
	n.calls = &callsOwner{local: n.orch, dial: dial}
	n.cleanups.add(untilStop, n.calls.close)
	cfg.WithOwner, cfg.Uptime = false, n.calls.uptime
	return n.calls
}
