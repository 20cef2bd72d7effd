package main

import (
	"context"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/fault"
)

// demoOptions are the flags of `orch demo`.
type demoOptions struct{ yes, keep bool }

func newDemo(e *env) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show in a minute what orch does, offline, in a folder of its own",
		Long: `Show what orch does: an agent mends a failing test, its node is killed in the middle and started again, and its push waits
until you approve it. All of it is real: a node, a git repository with a remote, and the commands that are printed. A script
answers in place of a language model.

It uses no network, no settings and no data of yours. The folder is removed at the end, unless --keep is given.
It needs git. --yes approves the push without asking.`,
		Example: "  orch demo\n  orch demo --yes --keep",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), e, o) },
	}
	cmd.Flags().BoolVar(&o.yes, "yes", false, "approve the push without asking")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "keep the folder")
	return cmd
}

// runDemo checks what the demonstration needs, runs it, and removes what it has made.
func runDemo(ctx context.Context, e *env, o demoOptions) (err error) {
	if !o.yes && (!e.inTTY || !e.errTTY) {
		return fault.New(fault.InvalidParams, "there is no terminal to ask on").WithHint("orch demo --yes approves by itself")
	}
	if _, err := exec.LookPath("git"); err != nil {
		return fault.Wrap(fault.ToolUnavailable, err, "the demonstration needs git").WithHint("install git, and put it in your PATH")
	}
	w, err := newDemoWorld(e)
	if err != nil {
		return err
	}
	defer func() {
		if left := w.remove(o.keep); err == nil {
			err = left
		}
	}()
	s := &demoStory{demoWorld: w, yes: o.yes}
	if err := s.tell(ctx); err != nil {
		return interrupted(ctx, err)
	}
	return s.next(o.keep)
}

// interrupted returns CANCELLED if ctx has ended, and otherwise err.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.Wrap(fault.Cancelled, err, "the demonstration was interrupted")
	}
	return err
}
