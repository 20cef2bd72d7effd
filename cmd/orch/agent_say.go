package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

func newAgentSay(c *agentCommands) *cobra.Command {
	var r api.SayRequest
	cmd := &cobra.Command{
		Use:   "say ID [TEXT...]",
		Short: "Say something to an agent that works, which its model hears in its next turn",
		Long: `Say something to an agent that works: more about what it is to do, a correction, or the next message of a chat. Its model hears
it in its next turn, after the calls that run. If the model has just given its final answer, it answers once more.`,
		Example: "  orch agent say @last 'Leave the tests alone.'\n  orch agent say @last --step review 'Look at the log as well.'\n" +
			"  orch agent say @last --end",
		Args:              takes("ID", "[TEXT...]"),
		ValidArgsFunction: c.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Text = strings.Join(args[1:], " ")
			return c.say(cmd.Context(), args[0], r)
		},
	}
	cmd.Flags().StringVar(&r.Step, "step", "", "key of the agent step, if the task has several")
	cmd.Flags().BoolVar(&r.End, "end", false, "end the chat after the answer; without TEXT at once")
	return cmd
}

func (c *agentCommands) say(ctx context.Context, task string, r api.SayRequest) error {
	return c.withTask(ctx, idle, task, func(s session, id events.TaskID) error {
		r.ID, r.Actor = id, c.actor()
		t, err := s.Say(ctx, r)
		if err != nil {
			return err
		}
		return c.showState(t)
	})
}
