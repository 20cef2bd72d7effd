package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// listOptions are the flags of `orch list`.
type listOptions struct {
	states, labels []string
	name, parent   string
	since, until   string
	limit          int
	cursor         string
	session        string
	all            bool
	dead, stuck    bool
}

func newList(c *readCommands) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List tasks, the newest first",
		Example: "  orch list --state FAILED --since 24h",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.list(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.states, "state", nil, "only these states")
	f.StringArrayVar(&o.labels, "label", nil, "only tasks with this label, as key=value (repeatable)")
	f.StringVar(&o.name, "name", "", "only names that match the pattern, such as 'nightly-*'")
	f.StringVar(&o.parent, "parent", "", "only children of the task")
	f.StringVar(&o.session, "session", "", "only calls of the session of an MCP client")
	f.StringVar(&o.since, "since", "", "only tasks that changed since then: 2h, 3d, a date or a time")
	f.StringVar(&o.until, "until", "", "only tasks that changed until then")
	f.IntVar(&o.limit, "limit", 50, "tasks of a page, 1 to 1000")
	f.StringVar(&o.cursor, "cursor", "", "where the page begins, as the page before said")
	f.BoolVar(&o.dead, "dead", false, "only tasks that need a person: failed and not redriven, or blocked")
	f.BoolVar(&o.stuck, "stuck", false, "only open tasks with a call that no worker may take: none serves its queue or its root")
	f.BoolVar(&o.all, "all", false, "all pages")
	completeFlag(cmd, "state", completeWords(stateNames()))
	return cmd
}

func (c *readCommands) list(ctx context.Context, o listOptions) error {
	request, err := o.request(c.now())
	if err != nil {
		return err
	}
	return c.with(ctx, idle, func(s session) error {
		if o.parent != "" {
			if request.Parent, err = c.find(ctx, s, o.parent); err != nil {
				return err
			}
		}
		if o.session != "" {
			if request.Session, err = c.find(ctx, s, o.session); err != nil {
				return err
			}
		}
		reply, err := s.List(ctx, request)
		if err != nil {
			return err
		}
		for o.all && reply.Next != "" {
			request.Cursor = reply.Next
			page, err := s.List(ctx, request)
			if err != nil {
				return err
			}
			reply.Tasks, reply.Next = append(reply.Tasks, page.Tasks...), page.Next
		}
		return c.showList(reply)
	})
}

func (o listOptions) request(now time.Time) (api.ListRequest, error) {
	r := api.ListRequest{Name: o.name, Limit: o.limit, Cursor: o.cursor, Dead: o.dead, Stuck: o.stuck}
	if o.limit < 1 || o.limit > 1000 {
		return r, fault.New(fault.ValidationError, "%d is not between 1 and 1000", o.limit).WithField("--limit")
	}
	for _, state := range o.states {
		state = strings.ToUpper(state)
		if err := oneOf("--state", state, stateNames()); err != nil {
			return r, err
		}
		r.States = append(r.States, statemachine.State(state))
	}
	var err error
	if r.Labels, err = parseLabels(o.labels); err != nil {
		return r, err
	}
	if r.Since, err = parseMoment("--since", o.since, now); err != nil {
		return r, err
	}
	r.Until, err = parseMoment("--until", o.until, now)
	return r, err
}

func (c *readCommands) showList(reply api.ListReply) error {
	v := view{data: reply, rows: rowsOf(reply.Tasks)}
	for _, t := range reply.Tasks {
		v.names = append(v.names, string(t.ID))
	}
	v.text = func(w io.Writer) error {
		if len(reply.Tasks) == 0 {
			c.note("no tasks")
			return nil
		}
		var table screen.Table
		table.Row("ID", "NAME", "STATE", "AGE", "REASON")
		for _, t := range reply.Tasks {
			state := string(t.State)
			if t.Unreadable != "" {
				state = strings.TrimSpace(state + " (" + string(t.Unreadable) + ")")
			}
			if t.Paused {
				state += " (paused)"
			}
			if t.Imported {
				state += " (imported)"
			}
			table.Row(string(t.ID), screen.Clip(t.Name, 40), state, screen.Age(c.now(), created(t)), screen.Line(t.Reason))
		}
		if err := table.Write(w, c.width()); err != nil {
			return err
		}
		if reply.Next != "" {
			c.note("there are more: --cursor %s, or --all", reply.Next)
		}
		return nil
	}
	return c.emit(v)
}

func created(t api.Summary) time.Time {
	if t.CreatedAt.IsZero() {
		return t.UpdatedAt
	}
	return t.CreatedAt
}

// parseLabels parses key=value pairs.
func parseLabels(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, fault.New(fault.InvalidFormat, "%q is not of the form key=value", pair).WithField("--label")
		}
		m[key] = value
	}
	return m, nil
}

// parseMoment parses an age such as 2h or 3d, a date, or a time. It returns the zero time for "".
func parseMoment(field, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := parseSpan(text); err == nil {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fault.New(fault.InvalidFormat, "%q is neither an age nor a time", text).WithField(field).
		WithHint("write it as 2h, 3d, 2026-01-31 or 2026-01-31T12:00:00Z")
}

// parseSpan parses a duration. In addition to the units of time.ParseDuration, it accepts days, such as 3d.
func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		d, err := time.ParseDuration(days + "h")
		return 24 * d, err
	}
	return time.ParseDuration(text)
}
