package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

func newGrants(c *approvalCommands) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "grants [SESSION]",
		Short: "List what is granted for good, and to sessions",
		Long: "List what `orch approve --always` or the answer \"approve always\" in an MCP client has opened for all sessions of somebody, and\n" +
			"what is opened for each open session, or for SESSION. `orch revoke ID` takes a grant back.",
		Example: "  orch grants",
		Args:    takes("[SESSION]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				grants, err := grantsOf(cmd.Context(), c, s, args)
				if err != nil {
					return err
				}
				return c.listGrants(grants, all)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "those that were revoked, too")
	return cmd
}

// grantsOf returns the approvals that one task (args) or all tasks of grants and all open sessions have stored.
func grantsOf(ctx context.Context, c *approvalCommands, s session, args []string) (grants []api.ApprovalView, err error) {
	var keepers []events.TaskID
	if len(args) > 0 {
		id, err := c.find(ctx, s, args[0])
		if err != nil {
			return nil, err
		}
		keepers = append(keepers, id)
	} else {
		for _, r := range []api.ListRequest{{Name: api.GrantsName, Limit: 1000}, sessionsRequest(false)} {
			list, err := s.List(ctx, r)
			if err != nil {
				return nil, err
			}
			for _, t := range list.Tasks {
				keepers = append(keepers, t.ID)
			}
		}
	}
	for _, id := range keepers {
		reply, err := s.Approvals(ctx, api.ApprovalsRequest{Task: id, All: true})
		if err != nil {
			return nil, err
		}
		grants = append(grants, reply.Approvals...)
	}
	return grants, nil
}

func (c *approvalCommands) listGrants(grants []api.ApprovalView, all bool) error {
	var shown []api.ApprovalView
	var names []string
	for _, g := range grants {
		if len(g.Scopes) > 0 && (g.Status == statemachine.ApprovalGranted || all && g.Status == statemachine.ApprovalRevoked) {
			shown, names = append(shown, g), append(names, g.ID)
		}
	}
	return c.emit(view{data: shown, rows: rowsOf(shown), names: names, text: func(w io.Writer) error {
		if len(shown) == 0 {
			return writeLines(w, []string{"nothing is granted beyond single calls"})
		}
		var table screen.Table
		table.Row("GRANT", "STATUS", "FOR", "HOLDS", "OPENS", "BY", "AGE", "REASON")
		for _, g := range shown {
			since := ""
			if g.DecidedAt != nil {
				since = screen.Age(c.now(), *g.DecidedAt)
			}
			table.Row(g.ID, string(g.Status), g.Submitter, holds(g), strings.Join(g.Scopes, ", "), g.Approver, since, g.Reason)
		}
		return table.Write(w, c.width())
	}})
}

// holds returns how long a grant holds: for good, or for the session that stores it.
func holds(g api.ApprovalView) string {
	if g.TaskName == api.GrantsName {
		return "for good"
	}
	return "in " + string(g.Task)
}

func newRevoke(c *approvalCommands) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "Take back a grant that holds for good, or for a session",
		Long:    "Take back what a grant has opened for all sessions of somebody, or for one session. A call that runs already goes on.",
		Example: "  orch revoke APR_01JD0000000000000000000000_AAAAAAAA --reason 'the script moved'",
		Args:    takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.decide(cmd.Context(), api.DecideRequest{ID: args[0], As: "revoked", Reason: reason})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return cmd
}
