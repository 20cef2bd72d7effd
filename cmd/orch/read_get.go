package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
)

func newGet(c *readCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "get ID",
		Aliases: []string{"show", "status"},
		Short:   "Show the state of a task and its steps",
		Long: `Show the state of a task and its steps. The time of the task is from its submission to its end, with queues and waits.
The time of a step is how long its newest attempt ran, as its worker measured it, without its time in the queue; of an
approval it is the wait for the decision.`,
		Example:           "  orch get @last",
		Args:              takes("ID"),
		ValidArgsFunction: c.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.get(cmd.Context(), args[0]) },
	}
}

func (c *readCommands) get(ctx context.Context, text string) error {
	return c.withTask(ctx, idle, text, func(s session, id events.TaskID) error {
		t, err := s.Get(ctx, api.GetRequest{ID: id})
		if err != nil {
			return err
		}
		return c.showTask(t)
	})
}

// textLines returns the lines of an untrusted text, escaped.
func textLines(text string) []string {
	return strings.Split(strings.ReplaceAll(screen.EscapeLines(strings.TrimSpace(text)), "\n", "\n  "), "\n")
}
