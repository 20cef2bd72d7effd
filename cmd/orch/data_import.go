package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
)

func newImport(c *dataCommands) *cobra.Command {
	o := &offline{env: c.env}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Store the tasks of an export file, for reading",
		Long: `Store the tasks of an export file in the archive of the node, for reading: get, list, result, history,
replay and explain show them, marked as imported. Nothing of them ever runs, and no command changes them.

The file is verified completely before anything is stored. A task that the node has with the same history is
left as it is; one that it has with another history is a conflict, and nothing is imported.`,
		Example: "  orch import run.orch --key node.pub",
		Args:    takes("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.importFile(cmd.Context(), o, args[0]) },
	}
	cmd.Flags().StringVar(&o.key, "key", "", keyUsage)
	return cmd
}

func (c *dataCommands) importFile(ctx context.Context, o *offline, name string) error {
	key, err := o.pinned()
	if err != nil {
		return err
	}
	file, err := os.Open(c.path(name))
	if err != nil {
		return c.fileError(name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return fault.New(fault.InvalidFormat, "%s is not a regular file", name).WithField("FILE")
	}
	return c.with(ctx, idle, func(s session) error {
		r := api.ImportRequest{File: string(events.NewTaskID(c.now())), Size: info.Size(), Actor: c.actor(), Wait: importWait}
		if key != nil {
			r.Key = export.EncodeKey(key)
		}
		reply, err := api.SendImport(ctx, s, file, r)
		if err != nil {
			return err
		}
		return c.showImport(reply)
	})
}

// importWait is how long one request waits for the end of an import.
const importWait = 10 * time.Second

func (c *dataCommands) showImport(r api.ImportReply) error {
	var lines, names []string
	for _, t := range r.Tasks {
		names = append(names, string(t.ID))
		what := "imported"
		if t.Existing {
			what = "there already"
		}
		lines = append(lines, string(t.ID)+" "+screen.Escape(t.Name)+": "+string(t.State)+" as of revision "+screen.Number(int(t.Rev))+", "+what) //nolint:gosec // a count
	}
	lines = append(lines, signedBy(export.Report{Fingerprint: r.Import.Fingerprint, Pinned: r.Import.Pinned}))
	return c.emit(view{data: r, rows: rowsOf(r.Tasks), names: names, text: func(w io.Writer) error { return writeLines(w, lines) }})
}
