package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// resultOptions are the flags of `orch result`.
type resultOptions struct {
	wait    bool
	timeout time.Duration
	people  approvalWait
}

func newResult(c *readCommands) *cobra.Command {
	var o resultOptions
	cmd := &cobra.Command{
		Use:   "result ID",
		Short: "Print the outputs of a task, when it is over",
		Long: `Print the outputs of a task. While it goes on this waits for its end, and says on stderr what it waits for.
With --timeout it stops then: the exit code is 8, or 9 when the task awaits an approval. Without a terminal it
stops with 9 as soon as the task waits for a person alone, or after --approval-wait. --wait=false does not wait
at all.`,
		Example:           "  orch result @last --timeout 30s -o json",
		Args:              takes("ID"),
		ValidArgsFunction: c.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.result(cmd.Context(), args[0], o) },
	}
	cmd.Flags().BoolVar(&o.wait, "wait", true, "wait until the task is over")
	o.people.add(cmd)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "stop waiting after this time, with the exit code 8 (0: never)")
	return cmd
}

func (c *readCommands) result(ctx context.Context, text string, o resultOptions) error {
	m := idle
	if o.wait {
		m = working
	}
	return c.withTask(ctx, m, text, func(s session, id events.TaskID) error {
		t, err := s.Get(ctx, api.GetRequest{ID: id})
		if err != nil {
			return err
		}
		f := c.wait.follower(s, id, t.Rev)
		f.people = c.wait.peopleWatch(o.people)
		defer f.release(ctx, s)
		if o.wait && !t.State.Terminal() {
			w := newWaitDisplay(c.env)
			w.begin(ctx, s, t)
			if _, err := c.wait.followTask(ctx, f, o.timeout, w, true); err != nil {
				return err
			}
		}
		return c.wait.finish(ctx, f)
	})
}
