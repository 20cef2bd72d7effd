package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
)

func newRestore(c *dataCommands) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory of a backup",
		Long: `Make a data directory of a backup. The backup is checked before anything is written, and the result as a
whole before it gets its name: there is no half restore. What happened after the backup is not in it;
tasks that had begun a call with effects then may have done it, so look at them before you let them run
(orch serve --paused).

With --nats it makes the store of a cluster, on servers that have none. No node may run meanwhile.`,
		Example: "  orch restore orch-20260102T120000Z.backup --data-dir ./data\n  orch restore cluster.backup --nats nats://n1:4222 --replicas 3",
		Args:    takes("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.restore(cmd.Context(), args[0], replace) },
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "move a data directory that is there aside")
	addSome(cmd.Flags(), false, func(k config.Key) bool { return k.Name == "replicas" })
	return cmd
}

func (c *dataCommands) restore(ctx context.Context, file string, replace bool) error {
	switch cluster := c.cfg.Storage.NATS != ""; {
	case c.cfg.Server != "":
		return fault.New(fault.InvalidParams, "a restore makes the data directory of a node on this machine, or with --nats the store of a cluster").
			WithHint("leave out --server")
	case cluster && replace:
		return fault.New(fault.InvalidParams, "a restore replaces no store of a cluster").WithField("--replace").
			WithHint("back up what is there, and delete its streams, for example with nats stream rm")
	}
	tell := c.progressLine()
	s, err := c.nodes.Restore(ctx, c.cfg, c.path(file), replace, tell)
	tell("")
	if err != nil {
		return err
	}
	return c.emit(view{data: s, names: []string{cmp.Or(s.Servers, s.DataDir)}, text: func(w io.Writer) error {
		lines := []string{fmt.Sprintf("%s with %s restored to %s and checked",
			screen.Plural(s.Tasks, "task"), screen.Plural(s.Commits, "commit"), cmp.Or(s.Servers, s.DataDir))}
		if s.Aside != "" {
			lines = append(lines, "what was there lies in "+s.Aside)
		}
		return writeLines(w, lines)
	}})
}
