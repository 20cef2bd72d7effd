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

func newBackup(a *app) *cobra.Command {
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
			return a.backup(cmd.Context(), args[0], credentials)
		},
	}
	cmd.Flags().BoolVar(&credentials, "with-credentials", false, "also copy the passwords of the node; keep such a file like them")
	return cmd
}

// backupReport is what a backup or a restore did.
type backupReport struct {
	File    string `json:"file"`
	DataDir string `json:"data_dir"`
	// Bytes is the size of the content, Tasks and Commits what a restore brought back.
	Bytes   int64 `json:"bytes"`
	Tasks   int   `json:"tasks,omitempty"`
	Commits int   `json:"commits,omitempty"`
	// Aside is where a restore put the former content of the data directory.
	Aside string `json:"aside,omitempty"`
}

func (a *app) backup(ctx context.Context, file string, credentials bool) error {
	if credentials && (a.cfg.Server != "" || a.cfg.NATS != "") {
		return fault.New(fault.InvalidParams, "the node keeps its credentials where it runs").WithField("--with-credentials").
			WithHint("take the backup there")
	}
	file = a.abs(file)
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		file = filepath.Join(file, "orch-"+a.now().UTC().Format("20060102T150405Z")+".backup")
	}
	tell := a.teller()
	s, err := a.nodes.Backup(ctx, a.cfg, file, credentials, tell)
	tell("")
	if err != nil {
		return err
	}
	return a.emit(view{data: s, names: []string{s.File}, text: func(w io.Writer) error {
		return writeLines(w, []string{screen.Number(int(s.Bytes>>10)) + " KiB saved in " + s.File, "bring it back with: orch restore " + s.File})
	}})
}

// abs returns a path as the user meant it.
func (a *app) abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(a.dir, path)
}

// teller returns a function that shows progress on a terminal, in one line; "" takes it away.
func (a *app) teller() func(text string) {
	shown := a.errTTY && a.cfg.Output == "text"
	return func(text string) {
		if shown {
			_, _ = io.WriteString(a.err, "\r"+text+"\x1b[K") // stderr is closed: nobody reads
		}
	}
}
