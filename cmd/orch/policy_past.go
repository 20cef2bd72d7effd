package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/policy/backtest"
	"github.com/orch-dev/orch/tools"
)

// shownPast limits the list for people.
const shownPast = 50

// past applies policies to the calls in the log. If it has to start a node, it starts it without a policy file, because the node
// runs no calls.
func (c *policyCommands) past(ctx context.Context, p policyPair, catalogue *tools.Catalogue, o policyTest) (*backtest.Report, error) {
	selected, err := listOptions{states: o.states, labels: o.labels, since: o.since, until: o.until, limit: 1}.request(c.now())
	if err != nil {
		return nil, err
	}
	c.cfg.Confinement.Policy = ""
	test := backtest.Test{
		Catalogue: catalogue, Before: p.before, After: p.after, Tool: o.tool,
		Since: selected.Since, Until: selected.Until, States: selected.States, Labels: selected.Labels,
	}
	var report backtest.Report
	err = c.with(ctx, idle, func(s session) (err error) {
		test.Source = s
		if o.task != "" {
			test.Since = time.Time{}
			if test.Task, err = c.find(ctx, s, o.task); err != nil {
				return err
			}
		}
		report, err = test.Run(ctx)
		return err
	})
	return &report, err
}

func (c *policyCommands) pastTable(w io.Writer, r *backtest.Report) error {
	line := fmt.Sprintf("%s of %s: %d would now be denied, %d asked for, %d allowed", screen.Plural(r.Calls, "past call"), screen.Plural(r.Tasks, "task"), r.Denied, r.Asked, r.Allowed)
	if r.Unjudged > 0 {
		line += fmt.Sprintf("; %d not judged", r.Unjudged)
	}
	if err := writeLines(w, []string{line}); err != nil || len(r.Changed) == 0 {
		return err
	}
	var table screen.Table
	table.Row("AT", "TASK", "STEP", "TOOL", "BEFORE", "NOW", "RULE")
	for _, call := range r.Changed[:min(len(r.Changed), shownPast)] {
		table.Row(stamp(call.At), string(call.Task), call.Step, call.Tool, strings.ToUpper(string(call.Before.Action)), strings.ToUpper(string(call.After.Action)), call.After.Rule)
	}
	if err := table.Write(w, c.width()); err != nil || len(r.Changed) <= shownPast {
		return err
	}
	return writeLines(w, []string{fmt.Sprintf("… and %d more: -o json lists all", len(r.Changed)-shownPast)})
}
