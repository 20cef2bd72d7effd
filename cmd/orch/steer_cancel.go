package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

func newCancel(c *steerCommands) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:               "cancel ID...",
		Short:             "End tasks, their children and their running calls",
		Example:           "  orch cancel @last --reason 'wrong branch'",
		Args:              takes("ID..."),
		ValidArgsFunction: c.completeIDs(100),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.cancel(cmd.Context(), args, reason) },
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return cmd
}

// cancel cancels tasks. It resolves all references before it cancels the first task.
func (c *steerCommands) cancel(ctx context.Context, texts []string, reason string) error {
	return c.with(ctx, idle, func(s session) error {
		ids := make([]events.TaskID, len(texts))
		for i, text := range texts {
			var err error
			if ids[i], err = c.find(ctx, s, text); err != nil {
				return err
			}
		}
		for _, id := range ids {
			t, err := s.Cancel(ctx, api.CancelRequest{ID: id, Reason: reason, Actor: c.actor()})
			if err != nil {
				return err
			}
			if err := c.showState(t); err != nil {
				return err
			}
		}
		return nil
	})
}
