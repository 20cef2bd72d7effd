package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
)

// exportOptions are the flags of orch export.
type exportOptions struct {
	to              string
	tree, publicKey bool
}

func newExport(c *dataCommands) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export ID... --to FILE",
		Short: "Write whole histories to one signed file, for another machine",
		Long: `Write whole histories to one signed file: every commit as it was recorded, large values, a manifest and the
signature of the node. Without --to, or with --to -, the file goes to stdout. A task that has not ended is written as it is now.

verify, replay and history read such a file without a node. The file holds paths and names of people
as the histories do. It holds no secrets of the node: a history with one is refused.`,
		Example:           "  orch export @last --to run.orch\n  orch export TASK_01 --tree | ssh elsewhere 'cat > run.orch'",
		ValidArgsFunction: c.completeIDs(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.export(cmd.Context(), args, o) },
	}
	cmd.Flags().StringVar(&o.to, "to", stdinName, "the new file; - is stdout (-o is the form of the output)")
	cmd.Flags().BoolVar(&o.tree, "tree", false, "also the descendants of each task")
	cmd.Flags().BoolVar(&o.publicKey, "public-key", false, "write no file, print the public key of the node")
	return cmd
}

func (c *dataCommands) export(ctx context.Context, texts []string, o exportOptions) error {
	if o.publicKey {
		return c.showKey(ctx)
	}
	if len(texts) == 0 {
		return fault.New(fault.RequiredField, "is missing").WithField("ID").WithHint("usage: orch export ID... --to FILE")
	}
	if o.to == stdinName && c.outTTY {
		return fault.New(fault.InvalidParams, "the file is not written to a terminal").WithField("--to").WithHint("name a file: --to run.orch")
	}
	return c.with(ctx, idle, func(s session) error {
		ids := make([]events.TaskID, len(texts))
		for i, text := range texts {
			id, err := c.find(ctx, s, text)
			if err != nil {
				return err
			}
			ids[i] = id
		}
		parts := api.NewExportReader(ctx, s, api.ExportRequest{IDs: ids, Tree: o.tree})
		if o.to == stdinName {
			return c.exportTo(c.out, parts)
		}
		return c.exportFile(c.path(o.to), parts)
	})
}

// exportTo copies an export file and verifies the copy.
func (c *dataCommands) exportTo(to io.Writer, parts *api.ExportReader) error {
	buffered := bufio.NewWriterSize(to, 1<<20)
	_, err := export.Verify(io.TeeReader(parts, buffered), export.Visitor{})
	err = cmp.Or(parts.Err(), err)
	return errors.Join(err, buffered.Flush())
}

// exportFile writes an export file under a new name. A failed export leaves no file.
func (c *dataCommands) exportFile(path string, parts *api.ExportReader) error {
	if _, err := os.Lstat(path); err == nil {
		return fault.New(fault.Conflict, "%s exists already", path).WithField("--to").WithHint("choose another name")
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fault.New(fault.Forbidden, "cannot write %s: %w", path, err).WithField("--to")
	}
	defer func() { _ = os.Remove(temp.Name()) }() // it is gone if it got its new name
	report, err := export.Verify(io.TeeReader(parts, temp), export.Visitor{})
	err = cmp.Or(parts.Err(), err)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := giveName(temp.Name(), path); err != nil {
		return err
	}
	return c.emit(view{data: report, names: []string{path}, text: func(w io.Writer) error {
		return writeLines(w, append(exportLines(report), "written to "+screen.Escape(path)+"; check it anywhere with: orch verify "+screen.Escape(path)))
	}})
}

// giveName gives a complete file its name, unless another file has it.
func giveName(temp, path string) error {
	claim, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(claim.Close(), os.Rename(temp, path))
	}
	if err != nil {
		return fault.New(fault.Conflict, "cannot give the file the name %s: %w", path, err).WithField("--to")
	}
	return nil
}

// exportLines describes an export file for people.
func exportLines(r export.Report) []string {
	commits := uint64(0)
	var lines []string
	for _, t := range r.Tasks {
		commits += t.Commits
		lines = append(lines, string(t.ID)+" "+screen.Escape(t.Name)+": "+string(t.State)+" as of revision "+screen.Number(int(t.Commits))+originText(t.Imported)) //nolint:gosec // a count
	}
	return append(lines,
		screen.Plural(len(r.Tasks), "task")+", "+screen.Plural(int(commits), "commit")+", "+screen.Plural(r.Events, "event")+", "+
			screen.Plural(r.Values, "large value")+", "+screen.Number(int((r.Bytes+1023)>>10))+" KiB",
		"signed by "+r.Fingerprint)
}

// originText says from where the exporting node has imported a task; "" if it has not.
func originText(from *export.Origin) string {
	if from == nil {
		return ""
	}
	signer := "?"
	if key, err := export.ParseKey(from.Key); err == nil {
		signer = export.Fingerprint(key)
	}
	return ", imported there on " + from.At.Format(time.DateOnly) + " from a file signed by " + signer
}

// showKey prints the public key of the node.
func (c *dataCommands) showKey(ctx context.Context) error {
	return c.with(ctx, idle, func(s session) error {
		r, err := s.Export(ctx, api.ExportRequest{})
		if err != nil {
			return err
		}
		return c.emit(view{data: r, names: []string{r.Key}, text: func(w io.Writer) error { return writeLines(w, []string{r.Key, r.Fingerprint}) }})
	})
}
