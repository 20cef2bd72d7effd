package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// watchOptions are the flags of `orch watch`.
type watchOptions struct {
	after   uint64
	timeout time.Duration
	people  approvalWait
}

func newWatch(c *readCommands) *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a task until it is over",
		Long: `Follow a task until it is over: on a terminal as a tree that is redrawn in place, otherwise as one
line an event. Ctrl-C leaves the task alone. Where no node runs, one inside this command carries the
task on.`,
		Example:           "  orch watch @last",
		Args:              takes("ID"),
		ValidArgsFunction: c.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.watch(cmd.Context(), args[0], o) },
	}
	cmd.Flags().Uint64Var(&o.after, "after", 0, "begin after this revision")
	o.people.add(cmd)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "stop watching after this time, with the exit code 8 (0: never)")
	return cmd
}

func (c *readCommands) watch(ctx context.Context, text string, o watchOptions) error {
	return c.withTask(ctx, working, text, func(s session, id events.TaskID) error {
		if err := c.wait.checkContinued(ctx, s, id); err != nil {
			return err
		}
		f := c.wait.follower(s, id, o.after)
		f.people = c.wait.peopleWatch(o.people)
		defer f.release(ctx, s)
		d, snapshots := c.watchDisplay()
		state, err := c.wait.followTask(ctx, f, o.timeout, d, snapshots)
		if err != nil {
			return err
		}
		if err := c.watched(ctx, f); err != nil {
			return err
		}
		return endOf(state)
	})
}

// watchDisplay returns the display for stdout. snapshots reports whether the display needs snapshots.
func (c *readCommands) watchDisplay() (d display, snapshots bool) {
	switch {
	case c.cfg.Output == "jsonl":
		return jsonDisplay{c.env}, false
	case c.cfg.Output != "text":
		return nopDisplay{}, false
	case c.outTTY:
		return newLiveDisplay(c.env, c.out), true
	default:
		return &plainDisplay{env: c.env, w: c.out}, false
	}
}

// watched writes the result of an ended task.
func (c *readCommands) watched(ctx context.Context, f *follower) error {
	switch c.cfg.Output {
	case "jsonl":
		return nil
	case "text":
		r, err := f.session.Result(ctx, api.ResultRequest{ID: f.id})
		if err != nil {
			return err
		}
		return c.wait.showResult(r)
	default:
		t, err := f.session.Get(ctx, api.GetRequest{ID: f.id})
		if err != nil {
			return err
		}
		return c.showTask(t)
	}
}
