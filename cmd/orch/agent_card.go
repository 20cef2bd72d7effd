package main

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

func newAgentsCard(c *agentCommands) *cobra.Command {
	return &cobra.Command{
		Use:   "card NAME",
		Short: "Print the agent card (A2A) of a registered agent",
		Long: `Print what programs that look for agents read at /agents/NAME/agent-card.json of the node. The card of the node itself is at
/.well-known/agent-card.json. They are for discovery: work is asked for by MCP.`,
		Example: "  orch agents card ada",
		Args:    takes("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.showAgentCard(cmd.Context(), args[0]) },
	}
}

func (c *agentCommands) showAgentCard(ctx context.Context, name string) error {
	return c.with(ctx, idle, func(s session) error {
		all, err := s.Agents(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(all, func(v agents.View) bool { return v.Name == name })
		if at < 0 {
			return fault.New(fault.NotFound, "there is no agent %q", name).WithField("NAME").WithHint("orch agents lists them")
		}
		card := agents.AgentCard(all[at].Member, all[at].URL)
		return c.emit(view{data: card, names: []string{name}, text: func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(card)
		}})
	})
}
