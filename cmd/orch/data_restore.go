package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

func newRestore(c *dataCommands) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory of a backup",
		Long: `Make a data directory of a backup. The backup is checked before anything is written, and the result as a
whole before it gets its name: there is no half restore. What happened after the backup is not in it;
tasks that had begun a call with effects then may have done it, so look at them before you let them run
(orch serve --paused).`,
		Example: "  orch restore orch-20260102T120000Z.backup --data-dir ./data",
		Args:    takes("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.restore(cmd.Context(), args[0], replace) },
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "move a data directory that is there aside")
	return cmd
}

func (c *dataCommands) restore(ctx context.Context, file string, replace bool) error {
	if c.cfg.Server != "" || c.cfg.Storage.NATS != "" {
		return fault.New(fault.InvalidParams, "a restore makes the data directory of a node on this machine").
			WithHint("leave out --server and --nats")
	}
	tell := c.progressLine()
	s, err := c.nodes.Restore(ctx, c.cfg, c.path(file), replace, tell)
	tell("")
	if err != nil {
		return err
	}
	return c.emit(view{data: s, names: []string{s.DataDir}, text: func(w io.Writer) error {
		lines := []string{fmt.Sprintf("%s with %s restored to %s and checked",
			screen.Plural(s.Tasks, "task"), screen.Plural(s.Commits, "commit"), s.DataDir)}
		if s.Aside != "" {
			lines = append(lines, "what was there lies in "+s.Aside)
		}
		return writeLines(w, lines)
	}})
}
