package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/orchestrator"
)

func newRedrive(a *app) *cobra.Command {
	var o waitOptions
	cmd := &cobra.Command{
		Use:   "redrive ID...",
		Short: "Let tasks of the dead letter go on",
		Long: `Let tasks of the dead letter (orch list --dead) go on where they failed. A failed task begins anew as
another task, with the results of its succeeded steps; asking twice gives the same one.`,
		Example:           "  orch redrive $(orch list --dead -o name)",
		Args:              takes("ID..."),
		ValidArgsFunction: a.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.redrive(cmd.Context(), args, o) },
	}
	addWait(cmd, &o)
	addSettings(cmd.Flags(), true, true)
	return cmd
}

func (a *app) redrive(ctx context.Context, texts []string, o waitOptions) error {
	return a.with(ctx, working, func(s session) error {
		var replies []orchestrator.SubmitReply
		for _, text := range texts {
			id, err := find(ctx, s, text)
			if err != nil {
				return err
			}
			reply, err := s.Redrive(ctx, orchestrator.RedriveRequest{ID: id, Actor: a.actor()})
			if err != nil {
				return err
			}
			replies = append(replies, reply)
		}
		var failed error
		for _, reply := range replies {
			if err := a.started(ctx, s, reply, o); err != nil && failed == nil {
				failed = err // the others go on all the same
			}
		}
		return failed
	})
}
