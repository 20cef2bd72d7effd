package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/policy"
)

// policyExplain are the flags of `orch policy explain`.
type policyExplain struct{ by, task string }

func newPolicyExplain(c *policyCommands) *cobra.Command {
	var o policyExplain
	cmd := &cobra.Command{
		Use:   "explain TOOL [name=value...]",
		Short: "Say what would happen to a call, without making it",
		Long: `Say what would happen to a call of a tool: whether it would run, be refused, or need an approval first, and which
rules of the configured policy file (--policy) match it. Nothing is called.

Paths are judged as they are written, and hosts by the URLs among the arguments. What the plan of a task allows
beforehand, and what people have granted, is not counted.`,
		Example:           "  orch policy explain BASH_EXECUTE command='git push' --by agent:bot --policy policy.yaml",
		Args:              takes("TOOL", "[name=value...]"),
		ValidArgsFunction: c.tools.completeTools,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.explainCall(cmd.Context(), args, o) },
	}
	addPolicy(cmd)
	cmd.Flags().StringVar(&o.by, "by", "", "the identity that submits the task, such as agent:bot (default: you)")
	cmd.Flags().StringVar(&o.task, "task", "", "the id of the task in whose workspace the call runs (default: a task of its own)")
	return cmd
}

func (c *policyCommands) explainCall(ctx context.Context, args []string, o policyExplain) error {
	p, _, err := c.loadPolicy(c.cfg.Confinement.Policy)
	if err != nil {
		return err
	}
	t, err := c.tools.tool(ctx, args[0])
	if err != nil {
		return err
	}
	checked, err := c.plans.toolArgs(t, args[1:], pathguard.Real(c.cfg.Root))
	if err != nil {
		return err
	}
	call := policy.Imagined{Tool: t.Spec().Name, Args: checked, Agent: o.by}
	if call.Agent == "" {
		call.Agent = c.actor()
	}
	if o.task != "" {
		if call.Task, err = events.ParseTaskID(o.task); err != nil {
			return err
		}
	}
	catalogue, err := c.tools.catalogue(ctx)
	if err != nil {
		return err
	}
	e, err := p.Explain(catalogue, call)
	if err != nil {
		return err
	}
	return c.emit(view{data: e, rows: rowsOf(e.Matches), names: []string{string(e.Action)}, text: func(w io.Writer) error {
		return writeLines(w, explainedLines(call, e))
	}})
}

// explainedLines says what would happen to a call, and why.
func explainedLines(call policy.Imagined, e policy.Explanation) []string {
	verbs := map[policy.Action]string{
		policy.RuleAllow: "would run", policy.RuleAsk: "would need an approval first", policy.RuleDeny: "would be refused",
	}
	lines := []string{screen.Escape(call.Tool + " by " + call.Agent + " " + verbs[e.Action] + " (effect " + string(e.Effect) + ")")}
	if e.Ask != nil {
		lines = append(lines, screen.Escape("  approval: "+e.Ask.Reason+" ("+e.Ask.Rule+", risk "+e.Ask.Risk+")"))
	}
	if e.Refused != nil {
		lines = append(lines, screen.Escape("  refused:  "+e.Refused.Error()))
	}
	for _, m := range e.Matches {
		line := "  rule:     " + m.Rule + " (" + string(m.Action) + ")"
		if m.Unsure {
			line += ", which may match"
		}
		lines = append(lines, screen.Escape(line))
	}
	if e.Announces {
		lines = append(lines, "  The tool says what a call reaches when it runs; here that is not known.")
	}
	return lines
}
