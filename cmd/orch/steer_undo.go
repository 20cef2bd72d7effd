package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// toolUndo is the tool that reverts the changes of a session.
const toolUndo = "PROJECT_UNDO"

// undoOptions are the flags of `orch undo`.
type undoOptions struct{ force, dryRun bool }

func newUndo(c *steerCommands) *cobra.Command {
	var o undoOptions
	cmd := &cobra.Command{
		Use:   "undo SESSION|TASK",
		Short: "Put back what a session of an MCP client, or one call of it, has changed in the project",
		Long: "Put back what a session of an MCP client, or one call of it, has changed in the project: contents, new files, removed ones.\n" +
			"What somebody has changed since stays, and is named; --force puts it back as well. `orch sessions` lists the sessions,\n" +
			"`orch history TASK` what a call has changed.",
		Example: "  orch undo TASK_01JD0000000000000000000000 --dry-run",
		Args:    takes("SESSION|TASK"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.undo(cmd.Context(), args[0], o) },
	}
	cmd.Flags().BoolVar(&o.force, "force", false, "put back what has changed since, too")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say what would be put back")
	addSettings(cmd.Flags(), true, true)
	return cmd
}

// undo calls the tool PROJECT_UNDO in a new task, and approves the call as the person who runs the command.
func (c *steerCommands) undo(ctx context.Context, text string, o undoOptions) error {
	return c.withTask(ctx, working, text, func(s session, id events.TaskID) error {
		t, err := s.Get(ctx, api.GetRequest{ID: id})
		if err == nil {
			err = c.checkRoot(s, t, "orch undo")
		}
		if err != nil {
			return err
		}
		args, err := undoArgs(t, o)
		if err != nil {
			return err
		}
		p, err := plan.FromCall(toolUndo, args)
		if err != nil {
			return err
		}
		reply, err := s.Submit(ctx, api.SubmitRequest{Plan: p.JSON(), Actor: c.actor(), Root: t.Root})
		if err != nil {
			return err
		}
		r, err := c.approveOwn(ctx, s, reply.ID)
		if err != nil {
			return err
		}
		return c.showUndone(r, o.dryRun)
	})
}

func undoArgs(t api.TaskView, o undoOptions) (json.RawMessage, error) {
	if t.Session == "" {
		return nil, fault.New(fault.StateNotAllowed, "the task %s belongs to no session, and nothing of what it has changed is kept", t.ID).
			WithHint("orch sessions lists the sessions")
	}
	args := map[string]any{"session": t.Session, "force": o.force, "dry_run": o.dryRun}
	if t.Session != t.ID {
		args["task"] = t.ID
	}
	return json.Marshal(args)
}

// approveOwn waits for the call of a task and approves it, because the person who runs this command is the approver.
func (c *steerCommands) approveOwn(ctx context.Context, s session, id events.TaskID) (api.ResultReply, error) {
	for {
		r, err := s.Result(ctx, api.ResultRequest{ID: id, Wait: offeredWithin, Attend: true})
		if err != nil || r.Ended {
			return r, err
		}
		if !r.Waits {
			continue
		}
		list, err := s.Approvals(ctx, api.ApprovalsRequest{Task: id})
		if err == nil && len(list.Approvals) > 0 {
			_, err = s.Decide(ctx, api.DecideRequest{ID: list.Approvals[0].ID, As: "granted", Reason: "orch undo", Actor: c.actor()})
		}
		if err != nil {
			return r, err
		}
	}
}

// showUndone writes which files were reverted. It returns an error if some could not be reverted.
func (c *steerCommands) showUndone(r api.ResultReply, dry bool) error {
	if r.Error != nil {
		return r.Error
	}
	var reply struct{ Result json.RawMessage }
	var out struct{ Restored, Removed, Conflicts []string }
	if err := errors.Join(json.Unmarshal(r.Output, &reply), json.Unmarshal(reply.Result, &out)); err != nil {
		return err
	}
	err := c.emit(view{data: reply.Result, names: append(out.Restored, out.Removed...), text: func(w io.Writer) error {
		return writeLines(w, undoneLines(out.Restored, out.Removed, out.Conflicts, dry))
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

func undoneLines(restored, removed, conflicts []string, dry bool) (lines []string) {
	restore, remove := "restored", "removed"
	if dry {
		restore, remove = "would restore", "would remove"
	}
	for _, list := range []struct {
		how   string
		paths []string
	}{{restore, restored}, {remove, removed}, {"changed since", conflicts}} {
		for _, path := range list.paths {
			lines = append(lines, list.how+"  "+screen.Escape(path))
		}
	}
	return lines
}
