package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/retention"
)

// retainOptions are the flags of orch retain.
type retainOptions struct {
	dryRun bool
	tasks  int
}

func newRetain(c *dataCommands) *cobra.Command {
	var o retainOptions
	cmd := &cobra.Command{
		Use:   "retain",
		Short: "Show which archived tasks and workspaces a node would remove, and what workspaces take up",
		Long: `Show which archived tasks and workspaces a node would remove now. This command removes nothing.

With --dry-run it asks the node, which says for each rule of the setting retain how many tasks and workspaces are due, how large they
are, and how many stay because they are held. The sizes of histories are estimated from some of them if there are many.

Without --dry-run it needs no node. It shows what the workspaces of archived tasks take up below the root, and which of them are older
than retain_workspaces (of tasks that are DONE) and retain_failed (of others), in days; it knows no rules and no holds.`,
		Example: "  orch retain --dry-run\n  orch retain --dry-run --tasks 20\n  orch retain --retain-workspaces 7",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.dryRun {
				return c.retainDryRun(cmd.Context(), o)
			}
			if cmd.Flags().Changed("tasks") {
				return fault.New(fault.InvalidParams, "goes with --dry-run").WithField("--tasks")
			}
			return c.retain(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "ask the node what it would remove by which rule")
	cmd.Flags().IntVar(&o.tasks, "tasks", 0, "name this many of the tasks that would be removed, at most 1000")
	addSettings(cmd.Flags(), true, true)
	return cmd
}

// retainDryRun shows what a node would remove by its rules.
func (c *dataCommands) retainDryRun(ctx context.Context, o retainOptions) error {
	return c.with(ctx, idle, func(s session) error {
		r, err := s.Retention(ctx, api.RetentionRequest{Tasks: o.tasks})
		if err != nil {
			return err
		}
		v := view{data: r, text: func(w io.Writer) error { return c.writeDryRun(w, r) }}
		for _, t := range r.Tasks {
			v.names = append(v.names, string(t.ID))
		}
		return c.emit(v)
	})
}

func (c *dataCommands) writeDryRun(w io.Writer, r api.RetentionReply) error {
	var table screen.Table
	table.Row("RULE", "TASKS OF", "DONE", "FAILED", "DUE", "SIZE", "WORKSPACES DUE", "SIZE")
	for _, rule := range r.Rules {
		about := ""
		if rule.Estimated {
			about = "about "
		}
		number := "-"
		if rule.Rule > 0 {
			number = strconv.Itoa(rule.Rule)
		}
		table.Row(number, screen.Line(rule.Where), retention.TimeText(rule.Done), retention.TimeText(rule.Failed), screen.Number(rule.DueTasks),
			about+kib(rule.DueBytes), screen.Number(rule.DueWorkspaces), kib(rule.DueWorkspaceBytes))
	}
	if err := table.Write(w, c.width()); err != nil {
		return err
	}
	var lines []string
	if r.Held > 0 {
		lines = append(lines, screen.Plural(r.Held, "task")+" would be due, but "+isOrAre(r.Held)+" held; see: orch hold list")
	}
	if r.WithFamily > 0 {
		lines = append(lines, screen.Plural(r.WithFamily, "task")+" would be due, but another task of the family is not")
	}
	if r.Outside != "" {
		lines = append(lines, "before a task is removed, it is archived in "+screen.Escape(r.Outside))
	}
	for _, t := range r.Tasks {
		rule := "by no rule"
		if t.Rule > 0 {
			rule = "by rule " + strconv.Itoa(t.Rule)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s since %s, due %s", t.ID, screen.Line(t.Name), t.State, t.At.Format(time.DateOnly), rule))
	}
	return writeLines(w, lines)
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func kib(n int64) string { return screen.Number(int((n+1023)>>10)) + " KiB" }

func (c *dataCommands) retain(ctx context.Context) error {
	all, err := node.InspectRetention(ctx, processNodes{logs: c.err}.config(c.cfg, idle), c.now())
	if err != nil {
		return err
	}
	if len(c.cfg.Retention.Rules) > 0 {
		c.note("there are rules, which this does not know; see: orch retain --dry-run")
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
