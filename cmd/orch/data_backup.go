package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

func newBackup(c *dataCommands) *cobra.Command {
	var credentials bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Check the whole log and copy it to a file",
		Long: `Check the whole log and copy it to a new file: live and archived histories, checkpoints and large values.
Whatever had been acknowledged when it began is in it. A running node goes on meanwhile, and moves
nothing to the archive. A directory gets a file named by the time. Workspaces are not part of it, and
credentials only when asked for.`,
		Example: "  orch backup /var/backups/orch/",
		Args:    takes("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.backup(cmd.Context(), args[0], credentials)
		},
	}
	cmd.Flags().BoolVar(&credentials, "with-credentials", false, "also copy the passwords of the node; keep such a file like them")
	return cmd
}

func (c *dataCommands) backup(ctx context.Context, file string, credentials bool) error {
	if credentials && (c.cfg.Server != "" || c.cfg.Storage.NATS != "") {
		return fault.New(fault.InvalidParams, "the node keeps its credentials where it runs").WithField("--with-credentials").
			WithHint("take the backup there")
	}
	file = c.path(file)
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		file = filepath.Join(file, "orch-"+c.now().UTC().Format("20060102T150405Z")+".backup")
	}
	tell := c.progressLine()
	s, err := c.nodes.Backup(ctx, c.cfg, file, credentials, tell)
	tell("")
	if err != nil {
		return err
	}
	return c.emit(view{data: s, names: []string{s.File}, text: func(w io.Writer) error {
		return writeLines(w, []string{screen.Number(int(s.Bytes>>10)) + " KiB saved in " + s.File, "bring it back with: orch restore " + s.File})
	}})
}
