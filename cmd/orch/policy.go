package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/policy/backtest"
)

// policyCommands are the commands about the policy.
type policyCommands struct {
	*connector

	tools *toolset
	plans *planLoader
}

func newPolicy(c *policyCommands) *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "Test and show the policy file, and explain what it does to a call", Example: "  orch policy test policy.yaml"}
	asGroup(cmd)
	show := &cobra.Command{
		Use:     "show",
		Short:   "Show the rules that are configured here",
		Example: "  orch policy show --policy policy.yaml",
		Args:    takes(),
		RunE:    func(*cobra.Command, []string) error { return c.showPolicy() },
	}
	addPolicy(show)
	cmd.AddCommand(show, newPolicyTest(c), newPolicyExplain(c))
	return cmd
}

func newPolicyTest(c *policyCommands) *cobra.Command {
	var o policyTest
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Check a policy file, its examples, and what it would do to past calls",
		Long: `Check a policy file, try its examples, and judge the past calls of the log by it: those are listed that the new
file would treat in another way than the configured policy file (--policy).

The log holds the tool, the arguments and who submitted the task. Paths are judged as they were written and hosts by
the URLs among the arguments; arguments of 64 KiB and more are not judged.`,
		Example: "  orch policy test policy.yaml --since 7d",
		Args:    takes("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.testPolicy(cmd.Context(), args[0], o) },
	}
	addPolicy(cmd)
	f := cmd.Flags()
	f.StringVar(&o.since, "since", "24h", "calls of tasks that changed since then: 2h, 3d, a date or a time")
	f.StringVar(&o.until, "until", "", "calls of tasks that have not changed after then")
	f.StringVar(&o.task, "task", "", "calls of this task alone")
	f.StringVar(&o.tool, "tool", "", "calls of tools with such a name alone, such as 'FILE_*'")
	f.StringSliceVar(&o.states, "state", nil, "calls of tasks in these states alone")
	f.StringArrayVar(&o.labels, "label", nil, "calls of tasks with this label alone, as key=value (repeatable)")
	completeFlag(cmd, "state", completeWords(stateNames()))
	f.BoolVar(&o.examples, "examples", false, "only the file and its examples; needs no log")
	cmd.MarkFlagsMutuallyExclusive("examples", "task")
	return cmd
}

// policySetting is the name of the setting and of its flag.
const policySetting = "policy"

// policyTest are the flags of `orch policy test`.
type policyTest struct {
	since, until   string
	task, tool     string
	states, labels []string
	examples       bool
}

// shownPolicy is the output of `orch policy show`.
type shownPolicy struct {
	*policy.Rules

	InEffect bool `json:"in_effect"`
}

func (c *policyCommands) showPolicy() error {
	rules, err := node.ReadRules(c.cfg.Confinement.Policy)
	if err != nil {
		return err
	}
	shown := shownPolicy{Rules: rules, InEffect: rules != nil}
	if rules == nil {
		shown.Rules = &policy.Rules{Default: policy.RuleAllow, List: []policy.Rule{}}
	}
	v := view{data: shown, rows: rowsOf(shown.List)}
	for _, r := range shown.List {
		v.names = append(v.names, r.Name)
	}
	v.text = func(w io.Writer) error {
		if !shown.InEffect {
			c.note("no policy file is configured here; what the node itself denies and asks for holds, and the file that it was started with (--policy)")
			return nil
		}
		if err := writeLines(w, []string{screen.Escape(shown.File) + ": default " + string(shown.Default)}); err != nil {
			return err
		}
		var table screen.Table
		table.Row("RULE", "ACTION", "MATCHES", "REASON")
		for _, r := range shown.List {
			table.Row(r.Name, string(r.Action), criteriaLine(r), r.Reason)
		}
		return table.Write(w, c.width())
	}
	return c.emit(v)
}

// criteriaLine describes in one line what a rule matches.
func criteriaLine(r policy.Rule) string {
	effects := make([]string, len(r.Effects))
	for i, e := range r.Effects {
		effects[i] = string(e)
	}
	var parts []string
	for _, c := range []struct {
		name string
		list []string
	}{
		{"tools", r.Tools},
		{"effects", effects},
		{"paths", r.Paths},
		{"hosts", r.Hosts},
		{"commands", r.Commands},
		{"agents", r.Agents},
		{"recipients", r.Recipients},
	} {
		if len(c.list) > 0 {
			parts = append(parts, c.name+" "+strings.Join(c.list, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// policyPair contains the policy in effect (before) and the tested policy (after).
type policyPair struct{ before, after *policy.Policy }

// policyReport is the result of `orch policy test`.
type policyReport struct {
	File     string                 `json:"file"`
	Rules    int                    `json:"rules"`
	Examples []policy.ExampleResult `json:"examples"`
	Past     *backtest.Report       `json:"past,omitempty"`
}

func (c *policyCommands) testPolicy(ctx context.Context, file string, o policyTest) error {
	after, rules, err := c.loadPolicy(c.path(file))
	if err != nil {
		return err
	}
	before, _, err := c.loadPolicy(c.cfg.Confinement.Policy)
	if err != nil {
		return err
	}
	catalogue, err := c.tools.catalogue(ctx)
	if err != nil {
		return err
	}
	report := policyReport{File: file, Rules: len(rules.List)}
	var failed error
	report.Examples, failed = after.CheckExamples(catalogue)
	if failed == nil && !o.examples {
		if report.Past, err = c.past(ctx, policyPair{before, after}, catalogue, o); err != nil {
			return err
		}
	}
	for _, pattern := range unmatchedTools(rules, catalogue.Names()) {
		c.note("no tool of this program fits the pattern %s", pattern)
	}
	if err := c.showPolicyReport(report); err != nil {
		return err
	}
	return failed
}

// loadPolicy creates a policy from a file. For an empty path, it creates a policy without rules.
func (c *policyCommands) loadPolicy(path string) (*policy.Policy, *policy.Rules, error) {
	rules, err := node.ReadRules(path)
	if err != nil {
		return nil, nil, err
	}
	p, err := policy.New(policy.Config{Root: pathguard.Real(c.cfg.Root), Rules: rules})
	return p, rules, err
}

// unmatchedTools returns the tool patterns that match no tool.
func unmatchedTools(rules *policy.Rules, names []string) []string {
	var strange []string
	for _, r := range rules.List {
		for _, pattern := range r.Tools {
			if !policy.MatchesAny(pattern, names) {
				strange = append(strange, pattern+" (rule "+r.Name+")")
			}
		}
	}
	return strange
}

func (c *policyCommands) showPolicyReport(r policyReport) error {
	v := view{data: r, rows: rowsOf(r.Examples)}
	if r.Past != nil {
		v.rows = append(v.rows, rowsOf(r.Past.Changed)...)
		for _, call := range r.Past.Changed {
			v.names = append(v.names, string(call.Task)+"/"+call.Step)
		}
	}
	v.text = func(w io.Writer) error {
		line := fmt.Sprintf("%s: %s, %s", screen.Escape(r.File), screen.Plural(r.Rules, "rule"), screen.Plural(len(r.Examples), "example"))
		if err := writeLines(w, []string{line}); err != nil {
			return err
		}
		if err := c.exampleTable(w, r.Examples); err != nil || r.Past == nil {
			return err
		}
		return c.pastTable(w, r.Past)
	}
	return c.emit(v)
}

func (c *policyCommands) exampleTable(w io.Writer, tried []policy.ExampleResult) error {
	if len(tried) == 0 {
		return nil
	}
	var table screen.Table
	table.Row("RULE", "EXAMPLE", "WANTED", "RESULT")
	for _, t := range tried {
		wanted, result := "no match", "ok"
		if t.Want {
			wanted = "match"
		}
		switch {
		case !t.OK:
			result = "FAILED: " + t.Problem
		case t.Skipped != "":
			result = "not tried: " + t.Skipped
		}
		table.Row(t.Rule, screen.Clip(t.Example.Tool+" "+string(t.Example.Args), 60), wanted, result)
	}
	return table.Write(w, c.width())
}

// addPolicy adds the flag of the setting policy, which only commands that run nodes have by default.
func addPolicy(cmd *cobra.Command) {
	addSome(cmd.Flags(), false, func(k config.Key) bool { return k.Name == policySetting })
}
