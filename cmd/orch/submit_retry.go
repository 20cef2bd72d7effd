package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/events"
)

// retryOptions are the flags of `orch retry`.
type retryOptions struct {
	from string
	bulk bulkOptions

	waitOptions
}

func newRetry(c *submitCommands) *cobra.Command {
	var o retryOptions
	cmd := &cobra.Command{
		Use:               "retry ID",
		Short:             "Begin a failed task anew, with the results of its succeeded steps",
		Example:           "  orch retry @last --from build\n  orch retry --where name='nightly-*' --where state=FAILED --dry-run",
		ValidArgsFunction: c.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(o.bulk.where) == 0 {
				return c.retry(cmd.Context(), args[0], o)
			}
			b := bulkRun{connector: c.connector, options: o.bulk, request: bulk.Request{Act: bulk.Retry, From: o.from, Via: "retry"}}
			return b.run(cmd.Context())
		},
	}
	addBulk(cmd, &o.bulk, "ID")
	cmd.Flags().StringVar(&o.from, "from", "", "run this step again, and all that need it")
	addWait(cmd, &o.waitOptions)
	addSettings(cmd.Flags(), true, true)
	return cmd
}

func (c *submitCommands) retry(ctx context.Context, text string, o retryOptions) error {
	return c.withTask(ctx, o.mode(), text, func(s session, id events.TaskID) error {
		reply, err := s.Retry(ctx, api.RetryRequest{ID: id, From: o.from, Actor: c.actor(), Via: "retry"})
		if err != nil {
			return err
		}
		return c.wait.afterStart(ctx, s, reply, o.waitOptions)
	})
}
