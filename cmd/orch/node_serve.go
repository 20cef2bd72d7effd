package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/proc"
)

func newServe(c *nodeCommands) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node: the log, the orchestrator and a worker",
		Long: `Run a node until it is interrupted: the log, the orchestrator and, unless --concurrency is 0, a worker.

A command that has a node of its own, because none ran, hands over to this one within seconds: the calls that it runs
go on, and the command follows its task here. This node waits for that, and says so.

On a NATS cluster (--nats) one node is active and the others stand by: they run calls, pass requests on to the active one,
and one of them takes over when it stops or dies. orch nodes says which one is active.

The first interrupt or SIGTERM stops the node: no more calls begin, and those that run have 10 seconds to end.
Then they are cancelled. Calls that only read, or may be repeated, are made again after the next start; a call
that may have changed something is then in doubt, and its verify tool or orch resolve decides. The second
interrupt ends the node at once. Nothing that was acknowledged is lost either way.`,
		Example: "  orch serve --data-dir ./data --concurrency 8",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context()) },
	}
	addSettings(cmd.Flags(), true, false)
	return cmd
}

func (c *nodeCommands) serve(ctx context.Context) error {
	waits := func(h bus.Holder) { c.note("waiting for %s, which uses %s and hands it over", h, c.cfg.DataDir) }
	defer surviveClosedOutput()()
	err := c.nodes.Serve(ctx, c.cfg, waits, func(address, mcp string) {
		address = secrets.URL(address)
		walls := probeSandbox(c.cfg.Confinement.Sandbox, proc.Probe()).Says
		if c.cfg.Output != "text" {
			_ = writeLine(c.out, map[string]string{"address": address, "mcp": mcp, "page": pageOf(mcp), "data_dir": c.cfg.DataDir, "durability": c.durability(), "sandbox": walls})
			return
		}
		c.note("orch serves %s at %s (durability %s); stop with Ctrl-C", c.cfg.DataDir, address, c.durability())
		if c.cfg.Storage.NATS != "" {
			c.note("what survives a power loss is up to the NATS server: it syncs every 2 minutes unless its configuration says sync_interval: always")
		}
		c.note("sandbox: %s", walls)
		if mcp != "" {
			c.note("MCP clients find it at %s (orch mcp install, orch token)", mcp)
			c.note("its page is at %s; orch ui logs you in", pageOf(mcp))
		}
	})
	return stopped(ctx, err)
}

// surviveClosedOutput lets the process go on when nobody reads its output any more: a write then fails, and does not end the process.
// It returns the function that ends this.
func surviveClosedOutput() (stop func()) {
	closed := make(chan os.Signal, 1)
	signal.Notify(closed, syscall.SIGPIPE)
	return func() { signal.Stop(closed) }
}

// pageOf returns the URL of the page of a node from its URL for MCP; empty if the node does not serve HTTP.
func pageOf(mcp string) string {
	if mcp == "" {
		return ""
	}
	return strings.TrimSuffix(mcp, "/mcp") + rest.Pages
}

// durability returns the durability of the log for display. It is unknown for an external server.
func (c *nodeCommands) durability() string {
	if c.cfg.Storage.NATS != "" {
		return string(bus.Unknown)
	}
	return c.cfg.Storage.Durability
}

func newWorker(c *nodeCommands) *cobra.Command {
	var metrics string
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker that executes calls of a node elsewhere",
		Long: `Run a worker until it is interrupted. The first interrupt or SIGTERM drains it: no new calls are taken, and
those that run have 10 seconds to end. Then they are cancelled and given back: calls that only read, or may be
repeated, go to other workers, and one that may have changed something is in doubt. The second interrupt ends
the worker at once.

With --metrics it serves its metrics for Prometheus at GET /metrics of an address at loopback, without a token: they
count calls, and name none.`,
		Example: "  orch worker --queue builds --concurrency 2\n  orch worker --metrics 127.0.0.1:9424",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer surviveClosedOutput()()
			cfg := c.cfg
			cfg.Worker.Metrics = metrics
			return stopped(cmd.Context(), c.nodes.Work(cmd.Context(), cfg))
		},
	}
	cmd.Flags().StringVar(&metrics, "metrics", "", "serve metrics at this `ADDRESS` of loopback, such as 127.0.0.1:9424 (default: nowhere)")
	addSome(cmd.Flags(), false, func(k config.Key) bool { return k.Worker })
	return cmd
}

// stopped returns nil if a service was cancelled by the end of ctx, which is a regular stop. Otherwise it returns err.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && fault.Has(err, fault.Cancelled) {
		return nil
	}
	return err
}
