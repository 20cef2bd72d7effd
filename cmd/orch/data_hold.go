package main

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// holdOptions are the flags of orch hold and orch hold release.
type holdOptions struct {
	reason, note string
	labels       []string
}

func newHold(c *dataCommands) *cobra.Command {
	var o holdOptions
	cmd := &cobra.Command{
		Use:   "hold ID... --reason TEXT",
		Short: "Keep tasks, whatever the rules of retention say",
		Long: `Keep tasks, whatever the rules of retention say: their histories, those of their whole family, and their workspaces. Who holds
them, when and why is recorded in the store of the node, and in its backups.

A task can be held for several reasons. It stays until the last of its holds is released. With --label, the tasks are held that
have the label now.`,
		Example:           "  orch hold TASK_01 --reason 'case 4711'\n  orch hold --label customer=acme --reason 'case 4711'\n  orch hold list\n  orch hold release TASK_01",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: c.completeIDs(100),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.hold(cmd.Context(), args, o) },
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for the record")
	cmd.Flags().StringArrayVar(&o.labels, "label", nil, "the tasks with this label, as key=value (repeatable)")
	cmd.AddCommand(newHoldList(c), newHoldRelease(c))
	return cmd
}

// hold places holds on tasks.
func (c *dataCommands) hold(ctx context.Context, texts []string, o holdOptions) error {
	if o.reason == "" {
		return fault.New(fault.RequiredField, "is missing").WithField("--reason").WithHint("say why the tasks must stay: --reason 'case 4711'")
	}
	return c.with(ctx, idle, func(s session) error {
		ids, err := c.heldTasks(ctx, s, texts, o.labels)
		if err != nil {
			return err
		}
		var all []api.Hold
		for part := range slices.Chunk(ids, api.MaxHeld) {
			reply, err := s.PlaceHold(ctx, api.HoldRequest{IDs: part, Reason: o.reason, Actor: c.actor()})
			if err != nil {
				return err
			}
			all = append(all, reply.Holds...)
		}
		return c.showHolds(all)
	})
}

// heldTasks returns the tasks that the arguments name, and those that have labels.
func (c *dataCommands) heldTasks(ctx context.Context, s session, texts, labels []string) ([]events.TaskID, error) {
	if len(texts) == 0 && len(labels) == 0 {
		return nil, fault.New(fault.RequiredField, "is missing").WithField("ID").WithHint("usage: orch hold ID... --reason TEXT, or orch hold --label key=value --reason TEXT")
	}
	var ids []events.TaskID
	for _, text := range texts {
		id, err := c.find(ctx, s, text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if len(labels) == 0 {
		return ids, nil
	}
	with, err := parseLabels(labels)
	if err != nil {
		return nil, err
	}
	found := 0
	for r := (api.ListRequest{Labels: with, Limit: 1000}); ; {
		page, err := s.List(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, line := range page.Tasks {
			ids = append(ids, line.ID)
		}
		if found, r.Cursor = found+len(page.Tasks), page.Next; r.Cursor == "" {
			break
		}
	}
	if found == 0 {
		return nil, fault.New(fault.NotFound, "no task has the label").WithField("--label")
	}
	return ids, nil
}

// showHolds shows holds, by task.
func (c *dataCommands) showHolds(all []api.Hold) error {
	v := view{data: all, rows: rowsOf(all), text: func(w io.Writer) error {
		var table screen.Table
		table.Row("TASK", "SINCE", "BY", "REASON", "RELEASED")
		for _, h := range all {
			released := "-"
			if h.Released != nil {
				released = h.Released.At.Format("2006-01-02 15:04") + " by " + h.Released.By + prefixed(": ", h.Released.Note)
			}
			table.Row(string(h.Task), h.At.Format("2006-01-02 15:04"), screen.Line(h.By), screen.Line(h.Reason), screen.Line(released))
		}
		return table.Write(w, c.width())
	}}
	for _, h := range all {
		v.names = append(v.names, string(h.Task))
	}
	return c.emit(v)
}

func newHoldList(c *dataCommands) *cobra.Command {
	var released bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tasks that are held, with who holds them and why",
		Example: "  orch hold list\n  orch hold list --released --json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				all := []api.Hold{}
				for r := (api.HoldsRequest{Released: released}); ; {
					reply, err := s.Holds(cmd.Context(), r)
					if err != nil {
						return err
					}
					if all, r.Cursor = append(all, reply.Holds...), reply.Next; r.Cursor == "" {
						break
					}
				}
				if len(all) == 0 {
					c.note("no task is held; hold one with: orch hold TASK --reason TEXT")
				}
				return c.showHolds(all)
			})
		},
	}
	cmd.Flags().BoolVar(&released, "released", false, "the last 1,000 holds that have ended instead")
	return cmd
}

func newHoldRelease(c *dataCommands) *cobra.Command {
	var o holdOptions
	cmd := &cobra.Command{
		Use:               "release ID...",
		Short:             "End the holds on tasks, which the rules of retention then remove when they are due",
		Example:           "  orch hold release TASK_01 --reason 'case 4711' --note 'the case is closed'",
		Args:              takes("ID..."),
		ValidArgsFunction: c.completeIDs(100),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				ids, err := c.heldTasks(cmd.Context(), s, args, nil)
				if err != nil {
					return err
				}
				reply, err := s.ReleaseHold(cmd.Context(), api.ReleaseHoldRequest{IDs: ids, Reason: o.reason, Note: o.note, Actor: c.actor()})
				if err != nil {
					return err
				}
				return c.showHolds(reply.Holds)
			})
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "only the hold for this reason; without it all holds of the tasks")
	cmd.Flags().StringVar(&o.note, "note", "", "why they end, for the record")
	return cmd
}
