package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// resolveOptions are the flags of `orch resolve`.
type resolveOptions struct{ as, output, reason string }

func newResolve(c *steerCommands) *cobra.Command {
	var o resolveOptions
	cmd := &cobra.Command{
		Use:   "resolve ID STEP",
		Short: "Decide about a step in doubt",
		Long: `Decide about a step in doubt: a call with effects began, and its worker was lost before it told the
end. Look whether it happened, then say succeeded, failed, or retry to call it once more.`,
		Example:           "  orch resolve @last push --as succeeded --reason 'the branch is there'",
		Args:              takes("ID", "STEP"),
		ValidArgsFunction: c.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.resolve(cmd.Context(), args, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.as, "as", "", "the decision"+choices(decisions()))
	f.StringVar(&o.output, "output-json", "", "output of the step, as JSON, when it succeeded")
	f.StringVar(&o.reason, "reason", "", "why, for the log")
	completeFlag(cmd, "as", completeWords(decisions()))
	return cmd
}

func decisions() []string { return []string{"succeeded", "failed", "retry"} }

func (c *steerCommands) resolve(ctx context.Context, args []string, o resolveOptions) error {
	if o.as == "" {
		return fault.New(fault.RequiredField, "is missing").WithField("--as").WithHint("it is one of succeeded, failed, retry")
	}
	if err := oneOf("--as", o.as, decisions()); err != nil {
		return err
	}
	var output json.RawMessage
	if o.output != "" {
		var err error
		if output, err = parseJSON("--output-json", o.output); err != nil {
			return err
		}
	}
	return c.withTask(ctx, idle, args[0], func(s session, id events.TaskID) error {
		t, err := s.Resolve(ctx, api.ResolveRequest{
			ID: id, Step: args[1], As: o.as, Output: output, Reason: o.reason, Actor: c.actor(),
		})
		if err != nil {
			return err
		}
		return c.showState(t)
	})
}
