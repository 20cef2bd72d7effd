package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/statemachine"
)

func newSessions(c *readCommands) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions of MCP clients, the newest first",
		Long: "List the sessions of MCP clients, the newest first: what their calls have in common. `orch list --session ID` lists the\n" +
			"calls of one, `orch history ID` shows what it knows.",
		Example: "  orch sessions --all",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := s.List(cmd.Context(), sessionsRequest(all))
				if err != nil {
					return err
				}
				if len(reply.Tasks) == 0 && !all {
					return c.emit(view{data: reply, rows: rowsOf(reply.Tasks), text: func(io.Writer) error {
						c.note("no session is open; orch sessions --all lists those that are over, too")
						return nil
					}})
				}
				return c.showList(reply)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "those that are over, too")
	return cmd
}

func sessionsRequest(all bool) api.ListRequest {
	r := api.ListRequest{Name: api.SessionName + "*", Limit: 1000}
	if !all {
		for _, state := range statemachine.States() {
			if !state.Terminal() {
				r.States = append(r.States, state)
			}
		}
	}
	return r
}
