package node

import (
	"context"
	"errors"
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
	cfg := worker.Config{WithOwner: n.server != nil}
	owner := n.workOwner(&cfg)
	own, asking := cfg, cfg
	own.Name, own.Queues = name, queues
	asking.Name, asking.Queues, asking.Concurrency = modelWorker(name), []string{work.ModelsQueue}, n.cfg.Models.Slots()
	var workers []*worker.Worker
	for _, cfg := range []worker.Config{own, asking} {
		w, err := n.executor.worker(owner, cfg)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	if n.server != nil {
		if err := n.server.RecordWorker(name); err != nil {
			return err
		}
	}
	n.runWorkers(ctx, workers)
	return nil
}

// modelWorker returns the name of the worker that makes the requests to models beside the worker of the node with a name. They have
// queues and slots of their own, so that neither keeps the other waiting (ADR 0056).
func modelWorker(name string) string { return name + "-models" }

// runWorkers runs workers until the node stops. They stop at the same time.
func (n *Node) runWorkers(ctx context.Context, workers []*worker.Worker) {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, len(workers))
	for _, w := range workers {
		go func() {
			err := w.Run(run)
			if err != nil && run.Err() == nil {
				n.cfg.logger().LogAttrs(run, slog.LevelError, "a worker of the node has ended; others may take its calls", slog.String("worker", w.Name()), slog.Any("error", err))
			}
			ended <- err
		}()
	}
	n.cleanups.add(untilStop, func(context.Context) error {
		stop()
		var err error
		for range workers {
			err = errors.Join(err, <-ended)
		}
		return err
	})
}

// workOwner returns the owner for the workers of the node. If the node may hand over, it returns a callsOwner and adapts cfg:
// the workers then outlive the owner in this process.
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
