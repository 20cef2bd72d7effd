package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/fault"
)

func newRedrive(c *submitCommands) *cobra.Command {
	var o waitOptions
	var many bulkOptions
	cmd := &cobra.Command{
		Use:   "redrive ID...",
		Short: "Let tasks of the dead letter go on",
		Long: `Let tasks of the dead letter (orch list --dead) go on where they failed. A failed task begins anew as
another task, with the results of its succeeded steps; people are asked again, as a grant is for one run.
Asking twice gives the same task. A task that cannot go on, such as one in doubt, is reported and does not
hold up the others.`,
		Example:           "  orch redrive $(orch list --dead -o name)\n  orch redrive --where dead=true --where since=1h --dry-run",
		ValidArgsFunction: c.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(many.where) == 0 {
				return c.redrive(cmd.Context(), args, o)
			}
			b := bulkRun{connector: c.connector, options: many, request: bulk.Request{Act: bulk.Redrive}}
			return b.run(cmd.Context())
		},
	}
	addBulk(cmd, &many, "ID...")
	addWait(cmd, &o)
	addSettings(cmd.Flags(), true, true)
	return cmd
}

func (c *submitCommands) redrive(ctx context.Context, texts []string, o waitOptions) error {
	return c.with(ctx, o.mode(), func(s session) error {
		replies, refused := c.redriveAll(ctx, s, texts)
		failed := refused
		for _, reply := range replies {
			if err := c.wait.afterStart(ctx, s, reply, o); err != nil && failed == nil {
				failed = err // the others are redriven anyway
			}
		}
		return failed
	})
}

// redriveAll redrives tasks, and continues after a failure. If several tasks cannot be redriven, it reports each of them, and
// returns an error with their number and the code of the first error.
func (c *submitCommands) redriveAll(ctx context.Context, s session, texts []string) (replies []api.SubmitReply, refused error) {
	count := 0
	for _, text := range texts {
		reply, err := c.redriveOne(ctx, s, text)
		switch {
		case err == nil:
			replies = append(replies, reply)
			continue
		case len(texts) == 1 || ctx.Err() != nil:
			return replies, err
		case refused == nil:
			refused = err
		}
		count++
		e := *fault.From(err)
		e.Field = text
		c.reportError(&e)
	}
	if refused == nil {
		return replies, nil
	}
	return replies, fault.New(fault.CodeOf(refused), "%d of %d tasks were not redriven", count, len(texts)).
		WithHint("see: orch list --dead")
}

func (c *submitCommands) redriveOne(ctx context.Context, s session, text string) (api.SubmitReply, error) {
	id, err := c.find(ctx, s, text)
	if err != nil {
		return api.SubmitReply{}, err
	}
	return s.Redrive(ctx, api.RedriveRequest{ID: id, Actor: c.actor()})
}
