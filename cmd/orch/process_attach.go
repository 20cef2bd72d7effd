package main

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/node"
)

// Attach implements nodes. If the running node has another root, the tasks of the session belong to the root of this process, and
// a worker in this process executes their calls while the session is open, unless the command detaches from them. A command that
// executes calls does not attach to the node of one that does not, which is about to end: it gets UNAVAILABLE.
func (p processNodes) Attach(ctx context.Context, cfg config.Config, m mode) (session, error) {
	if m == working && cfg.Server == "" && cfg.Storage.NATS == "" && bus.Passes(cfg.DataDir) {
		return nil, fault.New(fault.Unavailable, "the node that runs is that of a command that executes no calls").WithHint("try again in a moment")
	}
	return p.attach(ctx, cfg, m)
}

// attach is Attach for any node.
func (p processNodes) attach(ctx context.Context, cfg config.Config, m mode) (session, error) {
	s, err := p.Dial(ctx, cfg)
	r, ok := s.(remote)
	if err != nil || !ok || m == idle || cfg.Server != "" || cfg.Storage.NATS != "" || cfg.IdentityToken != "" {
		return s, err
	}
	nodes := bus.RootOf(cfg.DataDir)
	if r.root = rootFor(cfg, m, nodes); r.root == nodes || m == detached || cfg.Worker.Concurrency == 0 {
		return r, nil
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.worker = &ownWorker{stop: stop, ended: make(chan error, 1)}
	go func() { r.worker.ended <- node.RunWorker(working, p.config(cfg, m)) }()
	return r, nil
}

// ownWorker is a worker in this process for a node in another process.
type ownWorker struct {
	stop  context.CancelFunc
	ended chan error
}

// close stops the worker and waits until it has drained.
func (w *ownWorker) close(ctx context.Context) error {
	w.stop()
	select {
	case err := <-w.ended:
		if fault.Has(err, fault.Cancelled) { // it was still starting
			return nil
		}
		return err
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

// rootFor returns the root of the tasks that a process submits to a node with a root; "" if that is not known. A command without
// a root of its own, in a folder below the root of the node, uses that root.
func rootFor(cfg config.Config, m mode, nodes string) string {
	own := pathguard.Real(cfg.Root)
	rel, err := filepath.Rel(nodes, own)
	if nodes == "" || m != staying && cfg.Root == cfg.Dir && err == nil && filepath.IsLocal(rel) {
		return nodes
	}
	return own
}

// remote is a node in another process.
type remote struct {
	client

	// root is the root of the tasks that this process submits; "" for that of the node.
	root string
	// worker executes calls in this process (see Attach); nil if there is none.
	worker *ownWorker
}

// Embedded implements session.
func (remote) Embedded() bool { return false }

// Submit implements api.API.
func (r remote) Submit(ctx context.Context, in api.SubmitRequest) (api.SubmitReply, error) {
	return r.client.Submit(ctx, r.rooted(in))
}

// SubmitBatch implements api.API.
func (r remote) SubmitBatch(ctx context.Context, in api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	tasks := make([]api.SubmitRequest, len(in.Tasks))
	for i, task := range in.Tasks {
		tasks[i] = r.rooted(task)
	}
	in.Tasks = tasks
	return r.client.SubmitBatch(ctx, in)
}

// PutSchedule implements api.API.
func (r remote) PutSchedule(ctx context.Context, in api.PutScheduleRequest) (api.ScheduleView, error) {
	in.Root = cmp.Or(in.Root, r.root)
	return r.client.PutSchedule(ctx, in)
}

// PutHook implements api.API.
func (r remote) PutHook(ctx context.Context, in api.PutHookRequest) (api.HookView, error) {
	in.Root = cmp.Or(in.Root, r.root)
	return r.client.PutHook(ctx, in)
}

// TestHook implements api.API.
func (r remote) TestHook(ctx context.Context, in api.TestHookRequest) (api.TestHookReply, error) {
	in.Root = cmp.Or(in.Root, r.root)
	return r.client.TestHook(ctx, in)
}

// rooted returns a request with the root of the session.
func (r remote) rooted(in api.SubmitRequest) api.SubmitRequest {
	if in.KeysOf == "" {
		in.Root = cmp.Or(in.Root, r.root)
	}
	return in
}

// Close implements session.
func (r remote) Close(ctx context.Context) error {
	var err error
	if r.worker != nil {
		err = r.worker.close(ctx)
	}
	return errors.Join(err, r.client.Close())
}
