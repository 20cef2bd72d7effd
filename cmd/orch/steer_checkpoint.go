package main

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

func newCheckpoint(c *steerCommands) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "checkpoint",
		Short:   "Create, list and show checkpoints of a task",
		Example: "  orch checkpoint list @last",
	}
	asGroup(cmd)
	var state string
	create := &cobra.Command{
		Use:               "create ID NAME",
		Short:             "Keep the state of a task under a name",
		Example:           `  orch checkpoint create @last before-merge --state '{"branch": "main"}'`,
		Args:              takes("ID", "NAME"),
		ValidArgsFunction: c.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.createCheckpoint(cmd.Context(), args, state)
		},
	}
	create.Flags().StringVar(&state, "state", "", "your own data to keep with it, as JSON")
	cmd.AddCommand(create, &cobra.Command{
		Use:               "list ID",
		Short:             "List the checkpoints of a task",
		Example:           "  orch checkpoint list @last",
		Args:              takes("ID"),
		ValidArgsFunction: c.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.checkpoints(cmd.Context(), args[0])
		},
	}, &cobra.Command{
		Use:               "show ID CHECKPOINT",
		Short:             "Show what a checkpoint keeps",
		Example:           "  orch checkpoint show @last CHECKPOINT_01JD0000000000000000000000",
		Args:              takes("ID", "CHECKPOINT"),
		ValidArgsFunction: c.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.showCheckpoint(cmd.Context(), args)
		},
	})
	return cmd
}

func (c *steerCommands) createCheckpoint(ctx context.Context, args []string, state string) error {
	var raw json.RawMessage
	if state != "" {
		var err error
		if raw, err = parseJSON("--state", state); err != nil {
			return err
		}
	}
	return c.withTask(ctx, idle, args[0], func(s session, id events.TaskID) error {
		r, err := s.Checkpoint(ctx, api.CheckpointRequest{Task: id, Name: args[1], State: raw, Actor: c.actor()})
		if err != nil {
			return err
		}
		return c.listCheckpoints(r)
	})
}

func (c *steerCommands) checkpoints(ctx context.Context, text string) error {
	return c.withTask(ctx, idle, text, func(s session, id events.TaskID) error {
		r, err := s.Checkpoint(ctx, api.CheckpointRequest{Task: id})
		if err != nil {
			return err
		}
		return c.listCheckpoints(r)
	})
}

func (c *steerCommands) listCheckpoints(r api.CheckpointReply) error {
	v := view{data: r.Checkpoints, rows: rowsOf(r.Checkpoints)}
	for _, point := range r.Checkpoints {
		v.names = append(v.names, point.ID)
	}
	v.text = func(w io.Writer) error {
		var table screen.Table
		table.Row("CHECKPOINT", "NAME", "AT")
		for _, point := range r.Checkpoints {
			table.Row(point.ID, point.Name, stamp(point.At))
		}
		return table.Write(w, c.width())
	}
	return c.emit(v)
}

func (c *steerCommands) showCheckpoint(ctx context.Context, args []string) error {
	return c.withTask(ctx, idle, args[0], func(s session, id events.TaskID) error {
		r, err := s.Checkpoint(ctx, api.CheckpointRequest{Task: id, ID: args[1]})
		if err != nil {
			return err
		}
		if r.Snapshot == nil {
			return fault.New(fault.NotFound, "%s has no checkpoint %s", id, args[1]).WithHint("see: orch checkpoint list %s", id)
		}
		return c.emit(view{data: r.Snapshot, names: []string{r.Snapshot.ID}, text: func(w io.Writer) error {
			return writeLines(w, c.snapshotLines(r.Snapshot))
		}})
	})
}

func (c *steerCommands) snapshotLines(s *api.Snapshot) []string {
	lines := []string{screen.Escape(s.ID + "  " + s.Name + "  " + stamp(s.At))}
	if s.Task != nil {
		lines = append(lines, treeRenderer{c.style(c.outTTY), s.At}.folded(s.Task)...)
	}
	if len(s.State) > 0 {
		lines = append(append(lines, "state:"), indent(screen.Object(s.State))...)
	}
	return lines
}
