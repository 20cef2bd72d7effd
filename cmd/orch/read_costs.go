package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// costsOptions are the flags of `orch costs`.
type costsOptions struct{ by, since, until, identity string }

// costKinds are what `orch costs` can itemize, without labels.
func costKinds() []string {
	return []string{costs.ByDay, costs.ByModel, costs.ByAgent, costs.ByIdentity, costs.ByTask}
}

func newCosts(c *readCommands) *cobra.Command {
	o := costsOptions{by: costs.ByDay}
	cmd := &cobra.Command{
		Use:   "costs",
		Short: "Show what requests to language models cost, and what is left of the budgets",
		Long: `Show what the requests of agents to language models cost: by day, model, agent, identity, task, or the value of a label.
Days begin at midnight UTC. A lost answer may be billed; its most is shown apart. Child tasks count for the identity and the
labels of the task at the top. Then the budgets of the node follow (setting models, budgets).`,
		Example: "  orch costs --since 7d\n  orch costs --by model --since 30d\n  orch costs --by label:team -o json",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.costs(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.by, "by", o.by, "what the rows are about"+choices(append(costKinds(), costs.LabelPrefix+"KEY")))
	f.StringVar(&o.since, "since", "", "the first day: 7d, a date or a time")
	f.StringVar(&o.until, "until", "", "the last day")
	f.StringVar(&o.identity, "identity", "", "only tasks of this identity, such as user:ada")
	completeFlag(cmd, "by", completeWords(costKinds()))
	return cmd
}

func (c *readCommands) costs(ctx context.Context, o costsOptions) error {
	request, err := c.costsRequest(o)
	if err != nil {
		return err
	}
	return c.with(ctx, idle, func(s session) error {
		reply, err := s.Costs(ctx, request)
		if err != nil {
			return err
		}
		if reply.Behind {
			c.note("the node still counts what was in its log when it started; these costs are not complete")
		}
		v := view{data: reply, rows: rowsOf(reply.Rows), text: func(w io.Writer) error { return c.costTables(w, o.by, reply) }}
		for _, row := range reply.Rows {
			v.names = append(v.names, row.Key)
		}
		return c.emit(v)
	})
}

func (c *readCommands) costsRequest(o costsOptions) (api.CostsRequest, error) {
	r := api.CostsRequest{GroupBy: o.by, Identity: o.identity}
	if label, ok := strings.CutPrefix(o.by, costs.LabelPrefix); ok && label == "" {
		return r, fault.New(fault.ValidationError, "the key of the label is missing").WithField("--by").WithHint("such as --by label:team")
	} else if !ok {
		if err := oneOf("--by", o.by, append(costKinds(), costs.LabelPrefix+"KEY")); err != nil {
			return r, err
		}
	}
	var err error
	if r.Since, err = parseMoment("--since", o.since, c.now()); err != nil {
		return r, err
	}
	r.Until, err = parseMoment("--until", o.until, c.now())
	return r, err
}

// costTables writes the costs and the budgets for people.
func (c *readCommands) costTables(w io.Writer, by string, r api.CostsReply) error {
	if len(r.Rows) == 0 {
		c.note("no model was asked")
	} else if err := costTable(by, r).Write(w, c.width()); err != nil {
		return err
	}
	if len(r.Budgets) == 0 {
		return nil
	}
	if len(r.Rows) > 0 {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	return budgetTable(r.Budgets).Write(w, c.width())
}

func costTable(by string, r api.CostsReply) *screen.Table {
	var t screen.Table
	lost := r.Total.Lost > 0
	head := []string{strings.ToUpper(strings.TrimPrefix(by, costs.LabelPrefix)), "COST", "TURNS", "IN", "CACHED", "OUT"}
	if lost {
		head = append(head, "LOST", "AT MOST")
	}
	t.Row(head...)
	line := func(name string, s costs.Sum) {
		row := []string{
			name, "$" + events.Dollars(s.NanoUSD), number(s.Turns), number(s.Request()), number(s.CacheRead), number(s.Output),
		}
		if lost {
			row = append(row, number(s.Lost), "$"+events.Dollars(s.LostNanoUSD)+", "+number(s.LostTokens)+" tokens")
		}
		t.Row(row...)
	}
	for _, row := range r.Rows {
		line(costName(row), row.Sum)
	}
	if len(r.Rows) > 1 {
		line("total", r.Total)
	}
	return &t
}

// costName names a row.
func costName(row costs.Row) string {
	switch {
	case row.Older:
		return "(older)"
	case row.Key == "":
		return "(none)"
	default:
		return row.Key
	}
}

func budgetTable(all []api.BudgetView) *screen.Table {
	var t screen.Table
	t.Row("BUDGET", "SPENT", "IN FLIGHT", "LEFT", "UNTIL")
	for _, b := range all {
		t.Row(b.Name, amounts(b.Limit, b.Spent), amounts(b.Limit, b.Held), amounts(b.Limit, b.Limit.Minus(b.Spent).Minus(b.Held)), b.Until.UTC().Format("2006-01-02 15:04 MST"))
	}
	return &t
}

// amounts formats what a limit limits.
func amounts(limit, of events.Spent) string {
	var parts []string
	if limit.NanoUSD > 0 {
		parts = append(parts, "$"+events.Dollars(max(of.NanoUSD, 0)))
	}
	if limit.Tokens > 0 {
		parts = append(parts, number(max(of.Tokens, 0))+" tokens")
	}
	return strings.Join(parts, ", ")
}

func number(n int64) string { return screen.Number(int(n)) }
