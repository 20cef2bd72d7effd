package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
)

// pastReport is the result of applying a tested policy to past calls.
type pastReport struct {
	Tasks int `json:"tasks"`
	Calls int `json:"calls"`
	// Unjudged is the number of calls that cannot be checked, because the log does not contain their arguments or this program
	// does not have their tool.
	Unjudged int `json:"unjudged"`
	Denied   int `json:"denied"`
	Asked    int `json:"asked"`
	// Changed contains the calls that the tested policy would deny or that would need approval, the newest first.
	Changed []pastCall `json:"changed"`
}

// pastCall is a past call that the tested policy treats more strictly.
type pastCall struct {
	Task   events.TaskID  `json:"task"`
	Step   string         `json:"step"`
	Tool   string         `json:"tool"`
	Agent  string         `json:"agent,omitempty"`
	At     time.Time      `json:"at"`
	Before policy.Verdict `json:"before"`
	After  policy.Verdict `json:"after"`
}

// shownPast limits the list for people.
const shownPast = 50

// pastReader applies policies to the calls in the log.
type pastReader struct {
	session   session
	policies  policyPair
	catalogue *tools.Catalogue
	since     time.Time
	// agents caches the identities that submitted tasks.
	agents map[events.TaskID]string
	report pastReport
}

// past applies policies to the calls in the log. If it has to start a node, it starts it without a policy file, because the node
// runs no calls.
func (c *policyCommands) past(ctx context.Context, j policyPair, catalogue *tools.Catalogue, o policyTest) (*pastReport, error) {
	since, err := parseMoment("--since", o.since, c.now())
	if err != nil {
		return nil, err
	}
	c.cfg.Confinement.Policy = ""
	r := pastReader{policies: j, catalogue: catalogue, agents: map[events.TaskID]string{}, report: pastReport{Changed: []pastCall{}}}
	err = c.with(ctx, idle, func(s session) error {
		r.session = s
		if o.task == "" {
			r.since = since
			return r.all(ctx)
		}
		id, err := c.find(ctx, s, o.task)
		if err != nil {
			return err
		}
		return r.task(ctx, id)
	})
	slices.SortStableFunc(r.report.Changed, func(x, y pastCall) int { return y.At.Compare(x.At) })
	return &r.report, err
}

// all reads the tasks that have changed within the selected time.
func (r *pastReader) all(ctx context.Context) error {
	request := api.ListRequest{Since: r.since, Limit: 1000}
	for {
		page, err := r.session.List(ctx, request)
		if err != nil {
			return err
		}
		for _, t := range page.Tasks {
			if err := r.task(ctx, t.ID); err != nil {
				return err
			}
		}
		if request.Cursor = page.Next; request.Cursor == "" {
			return nil
		}
	}
}

// task reads the calls of a task. It counts a retried call once.
func (r *pastReader) task(ctx context.Context, id events.TaskID) error {
	r.report.Tasks++
	agent, err := r.agent(ctx, id)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for c, err := range recorded(ctx, r.session, id, 1) {
		if err != nil {
			return err
		}
		for _, e := range c.Events {
			call, ok := e.Data.(*events.Ready)
			if !ok || seen[call.Step+" "+call.Purpose] || c.At.Before(r.since) {
				continue
			}
			seen[call.Step+" "+call.Purpose] = true
			r.call(pastCall{Task: id, Step: call.Step, Tool: call.Tool, Agent: cmp.Or(call.By, agent), At: c.At}, call.Args)
		}
	}
	return nil
}

// agent returns the identity that submitted a task, or the topmost parent of a child task.
func (r *pastReader) agent(ctx context.Context, id events.TaskID) (string, error) {
	if agent, ok := r.agents[id]; ok {
		return agent, nil
	}
	page, err := r.session.History(ctx, api.HistoryRequest{ID: id, From: 1, Limit: 1})
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

func (r *pastReader) call(c pastCall, args events.Value) {
	r.report.Calls++
	tool, ok := r.catalogue.Get(c.Tool)
	if !ok || args.Ref != "" {
		r.report.Unjudged++
		return
	}
	c.Before = r.policies.before.EvaluateRules(r.policies.before.CallFromLog(tool.Spec(), c.Task, args.Raw, c.Agent))
	c.After = r.policies.after.EvaluateRules(r.policies.after.CallFromLog(tool.Spec(), c.Task, args.Raw, c.Agent))
	switch {
	case c.After.Action == policy.RuleDeny && c.Before.Action != policy.RuleDeny:
		r.report.Denied++
	case c.After.Action == policy.RuleAsk && c.Before.Action == policy.RuleAllow:
		r.report.Asked++
	default:
		return
	}
	r.report.Changed = append(r.report.Changed, c)
}

func (c *policyCommands) pastTable(w io.Writer, r *pastReport) error {
	line := fmt.Sprintf("%s of %s: %d would now be denied, %d asked for", screen.Plural(r.Calls, "past call"), screen.Plural(r.Tasks, "task"), r.Denied, r.Asked)
	if r.Unjudged > 0 {
		line += fmt.Sprintf("; %d not judged", r.Unjudged)
	}
	if err := writeLines(w, []string{line}); err != nil || len(r.Changed) == 0 {
		return err
	}
	var table screen.Table
	table.Row("AT", "TASK", "STEP", "TOOL", "NOW", "RULE")
	for _, call := range r.Changed[:min(len(r.Changed), shownPast)] {
		table.Row(stamp(call.At), string(call.Task), call.Step, call.Tool, strings.ToUpper(string(call.After.Action)), call.After.Rule)
	}
	if err := table.Write(w, c.width()); err != nil || len(r.Changed) <= shownPast {
		return err
	}
	return writeLines(w, []string{fmt.Sprintf("… and %d more: -o json lists all", len(r.Changed)-shownPast)})
}
