package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/node"
)

func newRetain(c *dataCommands) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retain",
		Short: "Show what the workspaces of archived tasks take up, and which of them a node would remove",
		Long: `Show what the workspaces of archived tasks take up below the root, and which of them a node would remove now.

orch serve removes those that are older than retain_workspaces (of tasks that are DONE) and retain_failed (of others), in days
since the end of the task; 0 keeps them for ever. It notes in the log which ones go before it removes them. This command removes nothing.
The tasks themselves, with their histories, are kept for retain_tasks and retain_failed_tasks days.`,
		Example: "  orch retain\n  orch retain --retain-workspaces 7",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.retain(cmd.Context()) },
	}
	addSettings(cmd.Flags(), true, true)
	return cmd
}

func (c *dataCommands) retain(ctx context.Context) error {
	all, err := node.InspectRetention(ctx, processNodes{logs: c.err}.config(c.cfg, idle), c.now())
	if err != nil {
		return err
	}
	return c.emit(view{data: all, text: func(w io.Writer) error {
		var lines []string
		for _, r := range all {
			lines = append(lines, retainedLine(r))
		}
		return writeLines(w, lines)
	}})
}

func retainedLine(r node.Retained) string {
	line := fmt.Sprintf("%-9s  %s KiB in %s", r.State, screen.Number(int(r.Bytes>>10)), screen.Plural(r.Files, "file"))
	if r.Keep == 0 {
		return line + "; kept for ever"
	}
	return fmt.Sprintf("%s; %s (%s KiB) ended more than %d days ago and would go",
		line, screen.Plural(len(r.Due), "task"), screen.Number(int(r.DueBytes>>10)), r.Keep/(24*time.Hour))
}
