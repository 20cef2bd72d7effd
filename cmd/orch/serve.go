package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
)

func newServe(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node: the log, the orchestrator and a worker",
		Long: `Run a node until it is interrupted: the log, the orchestrator and, unless --concurrency is 0, a worker.

The first interrupt or SIGTERM stops the node: no more calls begin, and those that run have 10 seconds to end.
Then they are cancelled. Calls that only read, or may be repeated, are made again after the next start; a call
that may have changed something is then in doubt, and its verify tool or orch resolve decides. The second
interrupt ends the node at once. Nothing that was acknowledged is lost either way.`,
		Example: "  orch serve --data-dir ./data --concurrency 8",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context()) },
	}
	addSettings(cmd.Flags(), true, false)
	return cmd
}

func (a *app) serve(ctx context.Context) error {
	err := a.nodes.Serve(ctx, a.cfg, func(address, mcp string) {
		if a.cfg.Output != "text" {
			_ = writeLine(a.out, map[string]string{"address": address, "mcp": mcp, "data_dir": a.cfg.DataDir, "durability": a.cfg.Durability})
			return
		}
		a.note("orch serves %s at %s (durability %s); stop with Ctrl-C", a.cfg.DataDir, address, a.cfg.Durability)
		if mcp != "" {
			a.note("MCP clients find it at %s (orch mcp install, orch token)", mcp)
		}
	})
	return stopped(ctx, err)
}

func newWorker(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker that executes calls of a node elsewhere",
		Long: `Run a worker until it is interrupted. The first interrupt or SIGTERM drains it: no new calls are taken, and
those that run have 10 seconds to end. Then they are cancelled and given back: calls that only read, or may be
repeated, go to other workers, and one that may have changed something is in doubt. The second interrupt ends
the worker at once.`,
		Example: "  orch worker --queue builds --concurrency 2",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return stopped(cmd.Context(), a.nodes.Work(cmd.Context(), a.cfg))
		},
	}
	addSome(cmd.Flags(), false, func(k config.Key) bool { return k.Worker })
	return cmd
}

// stopped returns nil when a service ended because it was asked to.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && fault.Has(err, fault.Cancelled) {
		return nil
	}
	return err
}
