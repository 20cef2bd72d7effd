package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

// pauseOptions are the flags of `orch pause` and `orch resume`.
type pauseOptions struct {
	queue, tool, reason, checkpoint string
	node                            bool
}

func newPause(c *steerCommands) *cobra.Command {
	var o pauseOptions
	cmd := &cobra.Command{
		Use:     "pause [ID]",
		Short:   "Keep a task, a queue, a tool or the node from starting calls",
		Example: "  orch pause --tool BASH_EXECUTE --reason 'disk is being replaced'",
		RunE:    func(cmd *cobra.Command, args []string) error { return c.pause(cmd.Context(), args, o, false) },
	}
	return pauseFlags(c, cmd, &o)
}

func newResume(c *steerCommands) *cobra.Command {
	var o pauseOptions
	cmd := &cobra.Command{
		Use:   "resume [ID]",
		Short: "Let a paused task, queue, tool or node go on",
		Long: `Let a paused task, queue, tool or node go on, or a task ask again about which nobody decided in time.
With --checkpoint the task gets the state of one of its checkpoints back first, in the same commit; the answer
has it under restored. Calls that have ended are not undone.`,
		Example: "  orch resume @last",
		RunE:    func(cmd *cobra.Command, args []string) error { return c.pause(cmd.Context(), args, o, true) },
	}
	cmd.Flags().StringVar(&o.checkpoint, "checkpoint", "", "restore this checkpoint of the task first")
	return pauseFlags(c, cmd, &o)
}

func pauseFlags(c *steerCommands, cmd *cobra.Command, o *pauseOptions) *cobra.Command {
	cmd.Args = takes("[ID]")
	cmd.ValidArgsFunction = c.completeIDs(1)
	f := cmd.Flags()
	f.StringVar(&o.queue, "queue", "", "a queue instead of a task")
	f.StringVar(&o.tool, "tool", "", "a tool instead of a task")
	f.BoolVar(&o.node, "node", false, "the whole node instead of a task")
	f.StringVar(&o.reason, "reason", "", "why, for the log")
	completeFlag(cmd, "tool", c.tools.completeToolFlag)
	return cmd
}

func (c *steerCommands) pause(ctx context.Context, args []string, o pauseOptions, resume bool) error {
	if err := o.check(len(args)); err != nil {
		return err
	}
	r := api.PauseRequest{Queue: o.queue, Node: o.node, Reason: o.reason, Checkpoint: o.checkpoint}
	if o.tool != "" {
		t, err := c.tools.tool(ctx, o.tool)
		if err != nil {
			return err
		}
		r.Tool = t.Spec().Name
	}
	return c.with(ctx, idle, func(s session) error {
		r.Actor = c.actor()
		if len(args) == 1 {
			id, err := c.find(ctx, s, args[0])
			if err != nil {
				return err
			}
			r.ID = id
		}
		do := s.Pause
		if resume {
			do = s.Resume
		}
		reply, err := do(ctx, r)
		if err != nil {
			return err
		}
		if reply.Task != nil {
			return c.showResumed(reply)
		}
		return c.showPauses(reply)
	})
}

// check returns an error unless the command line names exactly one target. ids is the number of task ids.
func (o pauseOptions) check(ids int) error {
	named := ids
	for _, is := range []bool{o.queue != "", o.tool != "", o.node} {
		if is {
			named++
		}
	}
	if o.checkpoint != "" && ids != 1 {
		return fault.New(fault.InvalidParams, "only a task has checkpoints").WithField("checkpoint").
			WithHint("such as: orch resume @last --checkpoint ID")
	}
	if named != 1 {
		return fault.New(fault.InvalidParams, "name exactly one: a task ID, --queue, --tool or --node").
			WithHint("such as: orch pause @last")
	}
	return nil
}

// showResumed writes the state of a resumed task, and the restored state data of a checkpoint.
func (c *steerCommands) showResumed(r api.ControlReply) error {
	if r.Restored == nil {
		return c.showState(*r.Task)
	}
	return c.emit(view{data: r, names: []string{string(r.Task.ID)}, text: func(w io.Writer) error {
		lines := []string{string(r.Task.ID) + "  " + string(r.Task.State) + "  restored " + r.Restored.CheckpointID, "state:"}
		return writeLines(w, append(lines, indent(screen.Object(r.Restored.State))...))
	}})
}

// showState writes the state of a task after a command.
func (cn *connector) showState(t api.TaskView) error {
	return cn.emit(view{data: t, names: []string{string(t.ID)}, text: func(w io.Writer) error {
		text := string(t.ID) + "  " + string(t.State)
		if t.Paused {
			text += "  paused"
		}
		if t.Reason != "" {
			text += "  " + screen.Escape(t.Reason)
		}
		return writeLines(w, []string{text})
	}})
}

func (c *steerCommands) showPauses(r api.ControlReply) error {
	v := view{data: r, rows: rowsOf(r.Paused)}
	for _, p := range r.Paused {
		v.names = append(v.names, strings.TrimSpace(p.Kind+" "+p.Name))
	}
	v.text = func(w io.Writer) error {
		if len(r.Paused) == 0 {
			return writeLines(w, []string{"nothing is paused on the node"})
		}
		var lines []string
		for _, p := range r.Paused {
			lines = append(lines, screen.Escape(pauseText(p)))
		}
		return writeLines(w, lines)
	}
	return c.emit(v)
}

func pauseText(p api.PauseView) string {
	text := strings.TrimSpace(fmt.Sprintf("%s %s", p.Kind, p.Name)) + " is paused since " + stamp(p.At)
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}
