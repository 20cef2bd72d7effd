package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/undo"
)

// undoOptions are the flags of `orch undo`.
type undoOptions struct{ force, dryRun bool }

func newUndo(c *steerCommands) *cobra.Command {
	var o undoOptions
	cmd := &cobra.Command{
		Use:   "undo SESSION|TASK",
		Short: "Put back what a session of an MCP client, or one call of it, has changed in the project",
		Long: "Put back what a session of an MCP client, or one call of it, has changed in the project: contents, new files, removed ones.\n" +
			"What somebody has changed since stays, and is named with its changes; --force puts it back as well, and loses them.\n" +
			"`orch sessions` lists the sessions, `orch history TASK` what a call has changed.",
		Example: "  orch undo TASK_01JD0000000000000000000000 --dry-run",
		Args:    takes("SESSION|TASK"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.undo(cmd.Context(), args[0], o) },
	}
	cmd.Flags().BoolVar(&o.force, "force", false, "put back what has changed since, too")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say what would be put back")
	addSettings(cmd.Flags(), true, true)
	return cmd
}

// undo submits an undo, and approves its call as the person who runs the command.
func (c *steerCommands) undo(ctx context.Context, text string, o undoOptions) error {
	return c.withTask(ctx, working, text, func(s session, id events.TaskID) error {
		t, err := s.Get(ctx, api.GetRequest{ID: id})
		if err == nil {
			err = c.checkRoot(s, t, "orch undo")
		}
		if err != nil {
			return err
		}
		request := undo.Request{ID: id, Force: o.force, DryRun: o.dryRun, Actor: c.actor()}
		task, err := undo.Submit(ctx, s, t, request)
		if err != nil {
			return err
		}
		files, err := undo.Await(ctx, s, task, request)
		if err != nil {
			return err
		}
		return c.showUndone(files, o.dryRun)
	})
}

// showUndone writes which files were reverted. It returns an error if some could not be reverted.
func (c *steerCommands) showUndone(out undo.Files, dry bool) error {
	err := c.emit(view{data: out, names: append(out.Restored, out.Removed...), text: func(w io.Writer) error {
		return writeLines(w, undoneLines(out, dry))
	}})
	switch {
	case err != nil:
		return err
	case len(out.Conflicts) > 0:
		return fault.New(fault.Conflict, "changed since, and left as they are: %d", len(out.Conflicts)).WithHint("--force puts them back, too")
	case len(out.Restored)+len(out.Removed) == 0:
		c.note("nothing has changed")
	case dry:
		c.note("nothing was put back: this was a dry run")
	default:
		c.note("git is left alone: what was staged or committed still is (git status)")
	}
	return nil
}

// undoneLines describes each file of an undo: what happens to it, and what was changed since.
func undoneLines(out undo.Files, dry bool) (lines []string) {
	restore, remove := "restored", "removed"
	if dry {
		restore, remove = "would restore", "would remove"
	}
	for _, list := range []struct {
		how   string
		paths []string
	}{{restore, out.Restored}, {remove, out.Removed}, {"changed since", out.Conflicts}} {
		for _, path := range list.paths {
			lines = append(lines, list.how+"  "+screen.Escape(path))
			lines = append(lines, laterLines(out.Later, path, dry)...)
		}
	}
	return lines
}

// laterLines says who has changed a file since, what, and whether that is lost.
func laterLines(all []undo.LaterChange, path string, dry bool) (lines []string) {
	i := slices.IndexFunc(all, func(l undo.LaterChange) bool { return l.Path == path })
	if i < 0 {
		return nil
	}
	for _, by := range all[i].By {
		line := "  changed since by " + changerOf(by)
		switch {
		case all[i].Lost && dry:
			line += ": that change would be lost"
		case all[i].Lost:
			line += ": that change is lost"
		}
		lines = append(lines, line)
	}
	for text := range strings.Lines(all[i].Diff) {
		lines = append(lines, "    "+screen.Escape(strings.TrimSuffix(text, "\n")))
	}
	return lines
}

// changerOf names who has changed a file, and when.
func changerOf(by undo.ChangedBy) string {
	name, details := screen.Escape(by.Who), []string{}
	if by.Task != "" {
		name, details = "task "+string(by.Task), []string{"step " + screen.Escape(by.Step)}
	}
	if by.At != nil {
		details = append(details, by.At.Local().Format(time.DateTime))
	}
	if len(details) == 0 {
		return name
	}
	return name + " (" + strings.Join(details, ", ") + ")"
}
