package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/events"
)

func newCancel(c *steerCommands) *cobra.Command {
	var reason string
	var o bulkOptions
	cmd := &cobra.Command{
		Use:               "cancel ID...",
		Short:             "End tasks, their children and their running calls",
		Example:           "  orch cancel @last --reason 'wrong branch'\n  orch cancel --where label=team=shop --where state=IN_PROGRESS --dry-run",
		ValidArgsFunction: c.completeIDs(100),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(o.where) == 0 {
				return c.cancel(cmd.Context(), args, reason)
			}
			b := bulkRun{connector: c.connector, options: o, request: bulk.Request{Act: bulk.Cancel, Reason: reason}}
			return b.run(cmd.Context())
		},
	}
	addBulk(cmd, &o, "ID...")
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
