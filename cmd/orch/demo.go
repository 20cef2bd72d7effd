package main

import (
	"context"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/fault"
)

// demoOptions are the flags of `orch demo`.
type demoOptions struct {
	yes, keep, fast bool
	// model is the model to ask; empty for the script of the demonstration. tokens limits what it may use.
	model  string
	tokens int
}

func newDemo(e *env) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show in 90 seconds what orch does, offline, in a folder of its own",
		Long: `Show what orch does: an agent mends a failing test, its node is killed at turn 3 and started again, its push waits until
you have looked at the commit, and a fork goes on at turn 2 in another way. All of it is real: a node, a git repository with a
remote, and the commands that are printed. A script answers in place of a language model, unless --model names one of yours.

It uses no network, no settings and no data of yours, except those of the model. The folder is removed at the end, unless
--keep is given. It needs git.`,
		Example: "  orch demo\n  orch demo --yes --keep\n  orch demo --model local/qwen3 --tokens 100000",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), e, o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.yes, "yes", false, "approve the push without asking, and make no pauses; everything else that a model asks for is rejected")
	f.BoolVar(&o.keep, "keep", false, "keep the folder")
	f.BoolVar(&o.fast, "fast", false, "make no pauses for reading")
	f.StringVar(&o.model, "model", "", "model to ask, PROVIDER/NAME of your settings (orch models list); what it costs is limited by --tokens")
	f.IntVar(&o.tokens, "tokens", 200_000, "tokens that an agent may use")
	return cmd
}

// runDemo checks what the demonstration needs, runs it, and removes what it has made.
func runDemo(ctx context.Context, e *env, o demoOptions) (err error) {
	model, err := newDemoModel(e, o)
	if err != nil {
		return err
	}
	if !o.yes && (!e.inTTY || !e.errTTY) {
		return fault.New(fault.InvalidParams, "there is no terminal to ask on").WithHint("orch demo --yes approves by itself")
	}
	if _, err := exec.LookPath("git"); err != nil {
		return fault.Wrap(fault.ToolUnavailable, err, "the demonstration needs git").WithHint("install git, and put it in your PATH")
	}
	w, err := newDemoWorld(e, model)
	if err != nil {
		return err
	}
	w.fast = o.fast || o.yes || !e.outTTY
	defer func() {
		if left := w.close(o.keep); err == nil {
			err = left
		}
	}()
	s := &demoStory{demoWorld: w, yes: o.yes}
	if err := s.tell(ctx); err != nil {
		return interrupted(ctx, err)
	}
	return s.next()
}

// interrupted returns CANCELLED if ctx has ended, and otherwise err.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.Wrap(fault.Cancelled, err, "the demonstration was interrupted")
	}
	return err
}
