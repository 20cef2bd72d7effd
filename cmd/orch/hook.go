package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/hooks"
)

// hookCommands are the commands about hooks.
type hookCommands struct {
	*connector

	plans *planLoader
}

// commands implements family.
func (c *hookCommands) commands() []*cobra.Command {
	cmd := &cobra.Command{
		Use:     "hook",
		Aliases: []string{"hooks"},
		Short:   "Start tasks when other systems deliver webhooks, or publish messages",
		Long: `Start tasks when other systems deliver webhooks, or publish messages.

A hook takes deliveries at POST /hooks/NAME of a node that runs (orch serve), verifies their signatures, and submits a plan or
signals a task. Its tasks have the label hook=NAME. The plan sees the delivery as hook.body and hook.headers.

A hook of the provider nats takes the messages of a JetStream stream of the NATS server with which the node runs.`,
		Example: `  orch hook create deploy deploy.yaml --provider github --secret-file secret.txt --when 'hook.headers["x-github-event"] == "push"'
  orch hook deliveries deploy`,
	}
	asGroup(cmd)
	cmd.AddCommand(newHookList(c), newHookGet(c), newHookCreate(c), newHookDeliveries(c), newHookTest(c), newHookPause(c), newHookResume(c),
		newHookRotate(c), newHookDelete(c))
	return []*cobra.Command{cmd}
}

// noteIdle tells that nothing takes deliveries, if there are hooks and no node runs, or if it does not serve HTTP.
func (c *hookCommands) noteIdle(s session, list ...api.HookView) {
	switch {
	case len(list) == 0:
	case s.Embedded():
		c.note("no node runs here, so no hook takes deliveries; start one with: orch serve")
	case slices.ContainsFunc(list, func(h api.HookView) bool { return h.URL == "" && h.Definition.NATS == nil }):
		c.note("the node does not serve HTTP, so no hook takes deliveries; start it with: orch serve --http ADDRESS")
	}
}

func newHookList(c *hookCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the hooks, with their last deliveries",
		Example: "  orch hook list --json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := s.Hooks(cmd.Context(), api.HooksRequest{Deliveries: 1})
				if err != nil {
					return err
				}
				c.noteIdle(s, reply.Hooks...)
				return c.showList(reply.Hooks)
			})
		},
	}
}

func (c *hookCommands) showList(list []api.HookView) error {
	v := view{data: list, rows: rowsOf(list), text: func(w io.Writer) error {
		if len(list) == 0 {
			c.note("no hooks; create one with: orch hook create NAME PLAN.yaml --provider github --secret-file FILE")
			return nil
		}
		var table screen.Table
		table.Row("NAME", "PROVIDER", "STATE", "ACCEPTED", "REJECTED", "LIMITS", "LAST", "NOTE")
		for _, h := range list {
			last := "-"
			if len(h.Deliveries) > 0 {
				last = string(h.Deliveries[0].Result) + " " + screen.Age(c.now(), h.Deliveries[0].At)
			}
			table.Row(h.Name, string(h.Definition.Provider), stateOfHook(h), screen.Number(h.Counts[hooks.Accepted]), screen.Number(h.Counts[hooks.Rejected]), limitsOfHook(h.Limits), last, screen.Line(h.Definition.Note))
		}
		return table.Write(w, c.width())
	}}
	for _, h := range list {
		v.names = append(v.names, h.Name)
	}
	return c.emit(v)
}

// limitsOfHook says in a few words what a hook takes at most.
func limitsOfHook(l api.HookLimits) string {
	return fmt.Sprintf("%d/s, %d at once, %d KiB", l.PerSecond, l.AtOnce, l.MaxBody>>10)
}

// stateOfHook says in a few words whether a hook takes deliveries.
func stateOfHook(h api.HookView) string {
	switch {
	case h.Paused != nil:
		return "paused by " + h.Paused.By
	case h.Definition.Provider.Signs() && !h.HasSecret:
		return "without secret"
	case h.Problem != "":
		return "takes nothing"
	default:
		return "active"
	}
}

func newHookGet(c *hookCommands) *cobra.Command {
	const shown = 10
	return &cobra.Command{
		Use:               "get NAME",
		Short:             "Show a hook: its definition, its address, and what became of its last deliveries",
		Example:           "  orch hook get deploy",
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeHooks,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := s.Hooks(cmd.Context(), api.HooksRequest{Name: args[0], Deliveries: shown})
				if err != nil {
					return err
				}
				c.noteIdle(s, reply.Hooks[0])
				return c.showHook(reply.Hooks[0])
			})
		},
	}
}

func newHookDeliveries(c *hookCommands) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "deliveries NAME",
		Short: "List the last deliveries to a hook, the newest first",
		Long: `List the last deliveries to a hook, the newest first: when, the id that the sender gave it, what became of it, and the task.
The node keeps 100 of each hook. Requests without a valid signature are only counted: orch hook get shows how many, and why the
last one was rejected.`,
		Example:           "  orch hook deliveries deploy -n 20",
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeHooks,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := s.Hooks(cmd.Context(), api.HooksRequest{Name: args[0], Deliveries: limit})
				if err != nil {
					return err
				}
				return c.showDeliveries(reply.Hooks[0])
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", hooks.MaxOutcomes, "at most this many")
	return cmd
}

func (c *hookCommands) showDeliveries(h api.HookView) error {
	v := view{data: h.Deliveries, rows: rowsOf(h.Deliveries), text: func(w io.Writer) error {
		if len(h.Deliveries) == 0 {
			c.note("no deliveries; orch hook test %s --body FILE shows what one would do", h.Name)
			return nil
		}
		var table screen.Table
		table.Row("WHEN", "DELIVERY", "EVENT", "RESULT", "TASK", "REASON")
		for _, o := range h.Deliveries {
			table.Row(screen.Age(c.now(), o.At), cmp.Or(screen.Line(o.Delivery), "-"), cmp.Or(screen.Line(o.Event), "-"), string(o.Result), cmp.Or(o.Task, "-"), screen.Line(o.Reason))
		}
		return table.Write(w, c.width())
	}}
	for _, o := range h.Deliveries {
		v.names = append(v.names, o.Delivery)
	}
	return c.emit(v)
}

func (c *hookCommands) showHook(h api.HookView) error {
	return c.emit(view{data: h, names: []string{h.Name}, text: func(w io.Writer) error {
		lines := c.hookLines(h)
		for _, o := range h.Deliveries {
			lines = append(lines, screen.Escape(fmt.Sprintf("  %-10s %s  %s%s%s", o.Result, o.At.Format("2006-01-02 15:04:05 MST"), o.Delivery, prefixed("  ", o.Task), prefixed("  ", o.Reason))))
		}
		return writeLines(w, lines)
	}})
}

func (c *hookCommands) hookLines(h api.HookView) []string {
	d := h.Definition
	lines := []string{h.Name + "  " + string(d.Provider)}
	add := func(name, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("  %-10s %s", name, screen.Escape(fmt.Sprintf(format, args...))))
	}
	if d.Note != "" {
		add("note", "%s", d.Note)
	}
	if h.URL != "" {
		add("address", "POST %s", h.URL)
	}
	if s := d.NATS; s != nil {
		add("stream", "%s%s%s", s.Name, prefixed(" ", s.Subject), prefixed(", from ", string(s.From)))
	}
	if d.When != "" {
		add("when", "%s", d.When)
	}
	if s := d.Signal; s != nil {
		add("signal", "%s to %s", s.Name, s.Task)
	}
	if len(d.Headers) > 0 {
		add("headers", "%s", strings.Join(d.Headers, ", "))
	}
	add("defined", "by %s, %s", h.Requestor, c.agoText(h.UpdatedAt))
	if p := h.Paused; p != nil {
		add("paused", "by %s, %s%s", p.By, c.agoText(p.At), prefixed(": ", p.Note))
	}
	if d.Provider.Signs() && !h.HasSecret {
		add("secret", "missing, so nothing is accepted: orch hook rotate %s --secret-file FILE", h.Name)
	}
	if h.PreviousUntil != nil {
		add("secret", "the one before is valid until %s", h.PreviousUntil.Format("2006-01-02 15:04:05 MST"))
	}
	if h.Problem != "" {
		add("problem", "%s", h.Problem)
	}
	if h.Waiting != nil && *h.Waiting > 0 {
		add("waiting", "%s", screen.Plural(*h.Waiting, "message"))
	}
	add("limits", "%d deliveries a second, %d at once; bodies of %d KiB", h.Limits.PerSecond, h.Limits.AtOnce, h.Limits.MaxBody>>10)
	var counts []string
	for _, result := range slices.Sorted(maps.Keys(h.Counts)) {
		counts = append(counts, screen.Number(h.Counts[result])+" "+string(result))
	}
	if len(counts) > 0 {
		add("deliveries", "%s", strings.Join(counts, ", "))
	}
	if last := h.LastRejected; last != nil {
		add("rejected", "last %s: %s", c.agoText(last.At), last.Reason)
	}
	return lines
}

// completeHooks completes names of hooks as the first argument. It returns none if no node runs.
func (c *hookCommands) completeHooks(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.completeFrom(cmd, args, func(ctx context.Context, s session) ([]string, error) {
		reply, err := s.Hooks(ctx, api.HooksRequest{})
		var words []string
		for _, one := range reply.Hooks {
			words = append(words, one.Name+"\t"+string(one.Definition.Provider))
		}
		return words, err
	})
}
