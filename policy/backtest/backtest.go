// Package backtest applies a policy to the calls that the log has recorded. It shows what a changed policy file would have done to
// them before the file is used.
package backtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// Source reads the log. api.API implements it.
type Source interface {
	List(ctx context.Context, r api.ListRequest) (api.ListReply, error)
	History(ctx context.Context, r api.HistoryRequest) (api.HistoryReply, error)
}

// Catalogue finds tools by their names. *tools.Catalogue implements it.
type Catalogue interface {
	Get(name string) (tools.Tool, bool)
}

// Test is a comparison of two policies on past calls.
type Test struct {
	Source    Source
	Catalogue Catalogue
	// Before is the policy in effect, After the tested policy.
	Before, After *policy.Policy
	// Task selects the calls of one task. If it is empty, the test covers all tasks that have changed since Since.
	Task events.TaskID
	// Since excludes older calls, Until the tasks that have changed since then.
	Since, Until time.Time
	// Tool is a pattern of the names of tools; empty for all.
	Tool string
	// States and Labels select tasks as in a list; empty for all.
	States []statemachine.State
	Labels map[string]string
	// MaxTasks, MaxCalls and MaxChanged limit the tasks and the calls that are judged and the calls in Report.Changed; 0
	// means no limit.
	MaxTasks, MaxCalls, MaxChanged int
}

// Report is the result of a Test.
type Report struct {
	Tasks int `json:"tasks"`
	Calls int `json:"calls"`
	// Unjudged is the number of calls that cannot be judged, because the log does not contain their arguments or the catalogue
	// does not have their tool.
	Unjudged int `json:"unjudged"`
	// Denied, Asked and Allowed count the changed calls by what the tested policy does with them.
	Denied  int `json:"denied"`
	Asked   int `json:"asked"`
	Allowed int `json:"allowed"`
	// Changed contains the calls that the tested policy would treat in another way, the newest first. Omitted is the number of
	// further ones beyond Test.MaxChanged.
	Changed []Call `json:"changed"`
	Omitted int    `json:"omitted,omitempty"`
	// Truncated is set if there were more tasks than Test.MaxTasks, or more calls than Test.MaxCalls. Those of the tasks that
	// have changed last were judged.
	Truncated bool `json:"truncated,omitempty"`
}

// Call is a past call that the tested policy treats in another way than the policy in effect.
type Call struct {
	Task events.TaskID `json:"task"`
	Step string        `json:"step"`
	Tool string        `json:"tool"`
	// Agent is the identity that made the call; for a call of a plan, the submitter of the task or of its topmost parent.
	Agent  string         `json:"agent,omitempty"`
	At     time.Time      `json:"at"`
	Before policy.Verdict `json:"before"`
	After  policy.Verdict `json:"after"`
}

// Run judges the calls that the test selects by both policies. It returns the error of the source if the log cannot be read.
func (t Test) Run(ctx context.Context) (Report, error) {
	r := run{Test: t, agents: map[events.TaskID]string{}, report: Report{Changed: []Call{}}}
	err := r.tasks(ctx)
	slices.SortStableFunc(r.report.Changed, func(x, y Call) int { return y.At.Compare(x.At) })
	if most := t.MaxChanged; most > 0 && len(r.report.Changed) > most {
		r.report.Omitted = len(r.report.Changed) - most
		r.report.Changed = r.report.Changed[:most]
	}
	return r.report, err
}

// run is a test in progress.
type run struct {
	Test

	// agents caches the identities that submitted tasks.
	agents map[events.TaskID]string
	report Report
}

// tasks judges the selected tasks.
func (r *run) tasks(ctx context.Context) error {
	if r.Task != "" {
		return r.task(ctx, r.Task)
	}
	request := api.ListRequest{Since: r.Since, Until: r.Until, States: r.States, Labels: r.Labels, Limit: 1000}
	for {
		page, err := r.Source.List(ctx, request)
		if err != nil {
			return err
		}
		for _, t := range page.Tasks {
			if r.report.Truncated = r.report.Truncated || r.MaxTasks > 0 && r.report.Tasks == r.MaxTasks; r.report.Truncated {
				return nil
			}
			if err := r.task(ctx, t.ID); err != nil {
				return err
			}
		}
		if request.Cursor = page.Next; request.Cursor == "" {
			return nil
		}
	}
}

// task judges the calls of a task. It counts a retried call once.
func (r *run) task(ctx context.Context, id events.TaskID) error {
	r.report.Tasks++
	agent, err := r.agent(ctx, id)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for from := uint64(1); from > 0 && !r.report.Truncated; {
		page, err := r.Source.History(ctx, api.HistoryRequest{ID: id, From: from, Limit: 500})
		if err != nil {
			return err
		}
		for _, c := range page.Commits {
			r.commit(id, agent, c, seen)
		}
		from = page.Next
	}
	return nil
}

// commit judges the calls that became ready in a commit. seen contains those that were judged before.
func (r *run) commit(id events.TaskID, agent string, c api.CommitView, seen map[string]bool) {
	for _, e := range c.Events {
		call, ok := e.Data.(*events.Ready)
		if !ok || seen[call.Step+" "+call.Purpose] || c.At.Before(r.Since) {
			continue
		}
		seen[call.Step+" "+call.Purpose] = true
		if r.Tool != "" && !policy.MatchesAny(r.Tool, []string{call.Tool}) {
			continue
		}
		if r.report.Truncated = r.MaxCalls > 0 && r.report.Calls == r.MaxCalls; r.report.Truncated {
			return
		}
		r.call(Call{Task: id, Step: call.Step, Tool: call.Tool, Agent: cmp.Or(call.By, agent), At: c.At}, call.Args)
	}
}

// agent returns the identity that submitted a task, or the topmost parent of a child task.
func (r *run) agent(ctx context.Context, id events.TaskID) (string, error) {
	if agent, ok := r.agents[id]; ok {
		return agent, nil
	}
	page, err := r.Source.History(ctx, api.HistoryRequest{ID: id, From: 1, Limit: 1})
	if err != nil || len(page.Commits) == 0 {
		return "", err
	}
	agent := page.Commits[0].Actor
	for _, e := range page.Commits[0].Events {
		if s, ok := e.Data.(*events.Submitted); ok && s.Parent != nil && !s.Parent.Delegated() && s.Parent.Task != id {
			if agent, err = r.agent(ctx, s.Parent.Task); err != nil {
				return "", err
			}
		}
	}
	r.agents[id] = agent
	return agent, nil
}

// call judges one call.
func (r *run) call(c Call, args events.Value) {
	r.report.Calls++
	tool, ok := r.Catalogue.Get(c.Tool)
	if !ok || args.Ref() != "" {
		r.report.Unjudged++
		return
	}
	c.Before = r.Before.EvaluateRules(r.Before.CallFromLog(tool.Spec(), c.Task, args.Raw, c.Agent))
	c.After = r.After.EvaluateRules(r.After.CallFromLog(tool.Spec(), c.Task, args.Raw, c.Agent))
	if c.After.Action == c.Before.Action {
		return
	}
	switch c.After.Action {
	case policy.RuleDeny:
		r.report.Denied++
	case policy.RuleAsk:
		r.report.Asked++
	case policy.RuleAllow:
		r.report.Allowed++
	}
	r.report.Changed = append(r.report.Changed, c)
}
