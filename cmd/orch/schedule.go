package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/schedules"
)

// scheduleCommands are the commands about schedules.
type scheduleCommands struct {
	*connector

	plans *planLoader
}

// commands implements family.
func (c *scheduleCommands) commands() []*cobra.Command {
	cmd := &cobra.Command{
		Use:     "schedule",
		Aliases: []string{"schedules"},
		Short:   "Start tasks at certain times",
		Long: `Start tasks at certain times.

A schedule submits a plan by cron expressions, intervals or calendars, in a time zone. A node that runs (orch serve) starts its
tasks; they have the label schedule=NAME. The plan sees the instant as schedule.time.`,
		Example: `  orch schedule create nightly report.yaml --cron '30 2 * * *' --timezone Europe/Berlin
  orch list --label schedule=nightly`,
	}
	asGroup(cmd)
	cmd.AddCommand(newScheduleList(c), newScheduleGet(c), newScheduleCreate(c), newSchedulePause(c), newScheduleResume(c),
		newScheduleTrigger(c), newScheduleBackfill(c), newScheduleDelete(c))
	return []*cobra.Command{cmd}
}

func newScheduleList(c *scheduleCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the schedules, with what is next",
		Example: "  orch schedule list --json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := s.Schedules(cmd.Context(), api.SchedulesRequest{})
				if err != nil {
					return err
				}
				c.noteIdle(s, len(reply.Schedules))
				return c.showList(reply.Schedules)
			})
		},
	}
}

// noteIdle tells that nothing starts tasks, if there are schedules and no node runs.
func (c *scheduleCommands) noteIdle(s session, n int) {
	if n > 0 && s.Embedded() {
		c.note("no node runs here, so no schedule starts tasks; start one with: orch serve")
	}
}

func (c *scheduleCommands) showList(list []api.ScheduleView) error {
	v := view{data: list, rows: rowsOf(list), text: func(w io.Writer) error {
		if len(list) == 0 {
			c.note("no schedules; create one with: orch schedule create NAME PLAN.yaml --cron '30 2 * * *'")
			return nil
		}
		var table screen.Table
		table.Row("NAME", "WHEN", "NEXT", "RUNNING", "LAST", "NOTE")
		for _, s := range list {
			table.Row(s.Name, screen.Line(whenText(s.Spec)), c.nextText(s), tasksText(s), c.lastText(s), screen.Line(s.Note))
		}
		return table.Write(w, c.width())
	}}
	for _, s := range list {
		v.names = append(v.names, s.Name)
	}
	return c.emit(v)
}

// tasksText says how many tasks of a schedule run, and how many firings wait for them.
func tasksText(s api.ScheduleView) string {
	text := strconv.Itoa(len(s.Running))
	if n := len(s.Buffered); n > 0 {
		text += ", " + screen.Number(n) + " waiting"
	}
	return text
}

// whenText describes the rules of a schedule in one line.
func whenText(s schedules.Spec) string {
	var parts []string
	parts = append(parts, s.Cron...)
	for _, i := range s.Interval {
		text := "every " + spanText(i.Every)
		if i.Offset > 0 {
			text += " from " + spanText(i.Offset)
		}
		parts = append(parts, text)
	}
	for _, cal := range s.Calendar {
		parts = append(parts, calendarText(cal))
	}
	text := strings.Join(parts, "; ")
	if s.Timezone != "" && s.Timezone != "UTC" {
		text += " " + s.Timezone
	}
	return text
}

// spanText formats a duration without trailing zero units.
func spanText(d schedules.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func calendarText(c schedules.Calendar) string {
	var parts []string
	for _, f := range []struct {
		name  string
		value schedules.Field
	}{{"year", c.Year}, {"month", c.Month}, {"day", c.Day}, {"weekday", c.Weekday}, {"hour", c.Hour}, {"minute", c.Minute}} {
		if f.value != "" {
			parts = append(parts, f.name+" "+string(f.value))
		}
	}
	return strings.Join(parts, ", ")
}

// nextText says when a schedule starts its next task, in its own zone.
func (c *scheduleCommands) nextText(s api.ScheduleView) string {
	switch {
	case s.Paused != nil:
		return "paused by " + s.Paused.By
	case s.Due.IsZero():
		return "never"
	default:
		return inZone(s, s.Due) + " (" + c.inText(s.Due) + ")"
	}
}

// inText says how far away a time in the future is.
func (c *scheduleCommands) inText(at time.Time) string {
	if left := at.Sub(c.now()).Round(time.Second); left > 0 {
		return "in " + screen.Duration(left)
	}
	return "now"
}

// inZone formats a time in the zone of a schedule.
func inZone(s api.ScheduleView, at time.Time) string {
	zone, err := time.LoadLocation(s.Spec.Timezone)
	if err != nil { // the node knows a zone that this program does not
		zone = time.UTC
	}
	return at.In(zone).Format("2006-01-02 15:04:05 MST")
}

// lastText describes the last outcome of a schedule.
func (c *scheduleCommands) lastText(s api.ScheduleView) string {
	if len(s.Outcomes) == 0 {
		return "-"
	}
	last := s.Outcomes[0]
	text := cmp.Or(last.End, string(last.Result)) + " " + screen.Age(c.now(), last.Since)
	if s.Failures > 0 {
		text += ", " + screen.Number(s.Failures) + " failed in a row"
	}
	return text
}

func newScheduleGet(c *scheduleCommands) *cobra.Command {
	var upcoming int
	cmd := &cobra.Command{
		Use:               "get NAME",
		Short:             "Show a schedule: its definition, what is next, and what became of its last firings",
		Example:           "  orch schedule get nightly --upcoming 10",
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeSchedules,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := s.Schedules(cmd.Context(), api.SchedulesRequest{Name: args[0], Upcoming: upcoming})
				if err != nil {
					return err
				}
				c.noteIdle(s, 1)
				return c.showSchedule(reply.Schedules[0])
			})
		},
	}
	cmd.Flags().IntVar(&upcoming, "upcoming", 3, "this many next instants")
	return cmd
}

func (c *scheduleCommands) showSchedule(s api.ScheduleView) error {
	return c.emit(view{data: s, names: []string{s.Name}, text: func(w io.Writer) error {
		lines := slices.Concat(c.definitionLines(s), c.firingLines(s))
		return writeLines(w, lines)
	}})
}

func (c *scheduleCommands) definitionLines(s api.ScheduleView) []string {
	lines := []string{s.Name + "  " + screen.Escape(whenText(s.Spec))}
	add := func(name, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("  %-9s %s", name, screen.Escape(fmt.Sprintf(format, args...))))
	}
	if s.Note != "" {
		add("note", "%s", s.Note)
	}
	settings := "overlap " + string(s.Spec.OverlapPolicy()) + ", catch-up " + spanText(schedules.Duration(s.Spec.CatchUpWindow()))
	if s.Spec.Jitter > 0 {
		settings += ", jitter " + spanText(s.Spec.Jitter)
	}
	add("settings", "%s", settings)
	add("defined", "by %s, %s", s.Requestor, c.agoText(s.UpdatedAt))
	if s.Failures > 0 {
		add("failing", "%s in a row did not end in DONE", screen.Plural(s.Failures, "task"))
	}
	if p := s.Paused; p != nil {
		add("paused", "by %s, %s%s", p.By, c.agoText(p.At), prefixed(": ", p.Note))
	}
	if len(s.Next) == 0 && s.Paused == nil {
		add("next", "never")
	}
	for i, at := range s.Next {
		name := "next"
		if i > 0 {
			name = ""
		}
		add(name, "%s (%s)", inZone(s, at), c.inText(at))
	}
	return lines
}

// prefixed returns a text with a prefix, nothing for an empty text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func (c *scheduleCommands) firingLines(s api.ScheduleView) []string {
	const shown = 3
	var lines []string
	for _, f := range s.Running {
		lines = append(lines, firingLine(s, "running", f, ""))
	}
	for _, f := range s.Buffered[:min(len(s.Buffered), shown)] {
		lines = append(lines, firingLine(s, "waiting", f, ""))
	}
	if more := len(s.Buffered) - shown; more > 0 {
		lines = append(lines, fmt.Sprintf("  %-9s and %d more", "", more))
	}
	running := func(id string) bool {
		return slices.ContainsFunc(s.Running, func(f schedules.Firing) bool { return f.Task == id })
	}
	// The newest instant first, also where a firing has waited and others were decided before it.
	latest := func(a, b schedules.Outcome) int { return b.At.Compare(a.At) }
	for _, o := range slices.SortedStableFunc(slices.Values(s.Outcomes), latest) {
		if o.Task != "" && running(o.Task) {
			continue
		}
		times := ""
		if o.Count > 1 {
			times = "  the last of " + screen.Plural(o.Count, "instant")
		}
		lines = append(lines, firingLine(s, string(o.Result), o.Firing, prefixed("  ", o.End)+times+prefixed("  ", o.Reason)))
	}
	return lines
}

func firingLine(s api.ScheduleView, what string, f schedules.Firing, more string) string {
	text := fmt.Sprintf("  %-9s %s%s", what, inZone(s, f.At), prefixed("  ", f.Task))
	if f.Origin != schedules.ByTime {
		text += "  " + string(f.Origin) + " by " + f.By
	}
	return screen.Escape(text + more)
}

// completeSchedules completes names of schedules as the first argument. It returns none if no node runs.
func (c *scheduleCommands) completeSchedules(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.completeFrom(cmd, args, func(ctx context.Context, s session) ([]string, error) {
		reply, err := s.Schedules(ctx, api.SchedulesRequest{})
		var words []string
		for _, one := range reply.Schedules {
			words = append(words, one.Name+"\t"+screen.Line(whenText(one.Spec)))
		}
		return words, err
	})
}
