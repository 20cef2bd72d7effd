package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/policy/backtest"
)

// Bounds of a back-test over HTTP.
const (
	backtestTasks   = 1000
	backtestCalls   = 50_000
	backtestChanged = 200
	backtestWithin  = 20 * time.Second
)

// restPolicy implements rest.PolicyService.
type restPolicy struct {
	executor *executor
	api      api.API
	redact   func(string) string
	// testing is held while a back-test runs.
	testing sync.Mutex
}

var _ rest.PolicyService = (*restPolicy)(nil)

// Policy implements rest.PolicyService.
func (p *restPolicy) Policy(context.Context, rest.PolicyRequest) (rest.PolicyView, error) {
	view := rest.PolicyView{
		Default: string(policy.RuleAllow), Rules: []rest.PolicyRule{}, ReadOnly: p.executor.cfg.Confinement.ReadOnly, Tools: p.executor.catalogue.Names(),
	}
	rules := p.executor.policy.Rules()
	if rules == nil {
		return view, nil
	}
	view.File, view.Text, view.SHA256, view.Default = rules.File, p.redact(rules.Text), rules.Digest(), string(rules.Default)
	for _, r := range rules.List {
		view.Rules = append(view.Rules, p.rule(r))
	}
	view.Changed = !p.isCurrent(rules)
	return view, nil
}

// isCurrent reports whether the policy file is still what the node has read.
func (p *restPolicy) isCurrent(rules *policy.Rules) bool {
	now, err := ReadRules(p.executor.cfg.Confinement.Policy)
	return err == nil && now.Digest() == rules.Digest()
}

func (p *restPolicy) rule(r policy.Rule) rest.PolicyRule {
	out := rest.PolicyRule{
		Name: r.Name, Action: string(r.Action), Line: r.Line, Reason: p.redact(r.Reason), Criteria: map[string][]string{}, Examples: len(r.Match) + len(r.NoMatch),
	}
	effects := make([]string, len(r.Effects))
	for i, e := range r.Effects {
		effects[i] = string(e)
	}
	for name, list := range map[string][]string{
		"tools": r.Tools, "effects": effects, "paths": r.Paths, "hosts": r.Hosts, "commands": r.Commands, "agents": r.Agents, "recipients": r.Recipients,
	} {
		for _, pattern := range list {
			out.Criteria[name] = append(out.Criteria[name], p.redact(pattern))
		}
	}
	return out
}

// Explain implements rest.PolicyService.
func (p *restPolicy) Explain(_ context.Context, r rest.ExplainCallRequest) (rest.ExplainedCall, error) {
	e, err := p.executor.policy.Explain(p.executor.catalogue, policy.Imagined{Tool: r.Tool, Args: r.Args, Agent: r.Agent, Task: r.Task})
	if err != nil {
		return rest.ExplainedCall{}, err
	}
	out := rest.ExplainedCall{
		Action: string(e.Action), Effect: string(e.Effect), File: p.verdict(e.File), Matches: make([]rest.RuleMatch, len(e.Matches)), Announces: e.Announces,
	}
	for i, m := range e.Matches {
		out.Matches[i] = rest.RuleMatch{Rule: m.Rule, Action: string(m.Action), Line: m.Line, Unsure: m.Unsure}
	}
	if e.Refused != nil {
		out.Refused = e.Refused.Rewrite(p.redact)
	}
	if a := e.Ask; a != nil {
		out.Approval = &rest.NeededApproval{
			Rule: a.Rule, Reason: p.redact(a.Reason), Field: a.Field, Instead: p.redact(a.Instead), Type: a.Type, Risk: a.Risk, Scopes: p.redactAll(a.Scopes),
		}
	}
	return out, nil
}

func (p *restPolicy) verdict(v policy.Verdict) rest.PolicyVerdict {
	return rest.PolicyVerdict{Action: string(v.Action), Rule: v.Rule, Reason: p.redact(v.Reason)}
}

func (p *restPolicy) redactAll(texts []string) []string {
	clean := slices.Clone(texts)
	for i, text := range clean {
		clean[i] = p.redact(text)
	}
	return clean
}

// Backtest implements rest.PolicyService. One test runs at a time.
func (p *restPolicy) Backtest(ctx context.Context, r rest.BacktestRequest) (rest.BacktestReport, error) {
	if !p.testing.TryLock() {
		return rest.BacktestReport{}, fault.New(fault.RateLimited, "another back-test runs").WithHint("try again in some seconds").
			WithRetryAt(time.Now().Add(5 * time.Second))
	}
	defer p.testing.Unlock()
	rules, err := policy.ParseRules("policy.yaml", []byte(r.Policy))
	if err != nil {
		return rest.BacktestReport{}, err
	}
	after, err := p.executor.policy.WithRules(rules)
	if err != nil {
		return rest.BacktestReport{}, err
	}
	tried, err := after.CheckExamples(p.executor.catalogue)
	if err != nil {
		return rest.BacktestReport{}, err
	}
	ctx, stop := context.WithTimeout(ctx, backtestWithin)
	defer stop()
	found, err := p.test(r, after).Run(ctx)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return rest.BacktestReport{}, fault.New(fault.Timeout, "the test takes more than %s", backtestWithin).WithHint("select fewer tasks")
	case err != nil:
		return rest.BacktestReport{}, err
	}
	report := p.report(found)
	report.Rules, report.Examples = len(rules.List), len(tried)
	return report, nil
}

// test returns the test that a request describes.
func (p *restPolicy) test(r rest.BacktestRequest, after *policy.Policy) backtest.Test {
	if r.Since.IsZero() && r.Task == "" {
		r.Since = time.Now().Add(-24 * time.Hour)
	}
	return backtest.Test{
		Source: p.api, Catalogue: p.executor.catalogue, Before: p.executor.policy, After: after,
		Task: r.Task, Since: r.Since, Until: r.Until, Tool: r.Tool, States: r.States, Labels: r.Labels,
		MaxTasks: backtestTasks, MaxCalls: backtestCalls,
	}
}

// report converts a report, and counts its changes.
func (p *restPolicy) report(r backtest.Report) rest.BacktestReport {
	out := rest.BacktestReport{
		Tasks: r.Tasks, Calls: r.Calls, Unjudged: r.Unjudged, Truncated: r.Truncated,
		Changes: changesOf(r.Changed), Omitted: max(0, len(r.Changed)-backtestChanged), Changed: []rest.ChangedCall{},
	}
	for _, c := range r.Changed[:min(len(r.Changed), backtestChanged)] {
		out.Changed = append(out.Changed, rest.ChangedCall{
			Task: c.Task, Step: c.Step, Tool: c.Tool, Agent: c.Agent, At: c.At, Before: p.verdict(c.Before), After: p.verdict(c.After),
		})
	}
	return out
}

// changesOf counts changed calls by what happens to them before and after.
func changesOf(calls []backtest.Call) []rest.VerdictChange {
	all := []rest.VerdictChange{}
	for _, c := range calls {
		from, to := string(c.Before.Action), string(c.After.Action)
		i := slices.IndexFunc(all, func(v rest.VerdictChange) bool { return v.From == from && v.To == to })
		if i < 0 {
			i, all = len(all), append(all, rest.VerdictChange{From: from, To: to})
		}
		all[i].Calls++
	}
	slices.SortFunc(all, func(a, b rest.VerdictChange) int { return strings.Compare(a.From+" "+a.To, b.From+" "+b.To) })
	return all
}
