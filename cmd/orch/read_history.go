package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// historyOptions are the flags of `orch history`.
type historyOptions struct {
	from  uint64
	limit int
}

func newHistory(c *readCommands) *cobra.Command {
	var o historyOptions
	file := &offline{env: c.env}
	cmd := &cobra.Command{
		Use:   "history ID|FILE",
		Short: "List the events of a task, one a line",
		Long: `List the events of a task, one a line, with the beginnings of the arguments and results of its calls. -o json has them whole.
An argument with a slash or the ending .orch is an export file, which needs no node.`,
		Example:           "  orch history @last -o jsonl\n  orch history ./run.orch",
		Args:              takes("ID"),
		ValidArgsFunction: c.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.from < 1 || o.limit < 0 {
				return fault.New(fault.ValidationError, "the first revision is 1, and a limit is not negative").WithField("--from, --limit")
			}
			if isExportFile(args[0]) {
				return c.historyFile(cmd.Context(), file, args[0], o)
			}
			if err := file.onlyFiles(); err != nil {
				return err
			}
			return c.history(cmd.Context(), args[0], o)
		},
	}
	file.addFlags(cmd.Flags())
	cmd.Flags().Uint64Var(&o.from, "from", 1, "first revision")
	cmd.Flags().IntVar(&o.limit, "limit", 0, "largest number of commits (0: all)")
	return cmd
}

func (c *readCommands) history(ctx context.Context, text string, o historyOptions) error {
	return c.withTask(ctx, idle, text, func(s session, id events.TaskID) error {
		commits := []api.CommitView{}
		for commit, err := range recordedPage(ctx, s, id, o.from, o.limit) {
			if err != nil {
				return err
			}
			commits = append(commits, commit)
		}
		return c.showCommits(id, commits)
	})
}

func (c *readCommands) showCommits(id events.TaskID, commits []api.CommitView) error {
	return c.emit(view{data: commits, rows: rowsOf(commits), names: []string{string(id)}, text: func(w io.Writer) error {
		shown := attempts{values: true}
		for _, commit := range commits {
			if err := writeLines(w, shown.lines(commit)); err != nil {
				return err
			}
		}
		return nil
	}})
}

// lines formats a commit, one line per event.
func (a *attempts) lines(c api.CommitView) []string {
	lines := make([]string, len(c.Events))
	for i, e := range c.Events {
		d := describe(a.counted(e))
		if a.values {
			d.text = strings.TrimPrefix(d.text+valueText(e), " ")
		}
		lines[i] = d.line(c.Rev, c.At)
	}
	return lines
}
