package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/schedules"
)

// scheduleOptions are the flags of `orch schedule create`.
type scheduleOptions struct {
	name, plan, file                 string
	cron, every                      []string
	timezone, overlap, jitter, catch string
	from, until, note                string
	inputs                           []string
	inputsFile                       string
	paused, replace, dryRun          bool
}

func newScheduleCreate(c *scheduleCommands) *cobra.Command {
	var o scheduleOptions
	cmd := &cobra.Command{
		Use:   "create NAME [PLAN.yaml]",
		Short: "Create a schedule, or replace its definition",
		Long: `Create a schedule, or replace its definition.

The rules are flags, or a file (-f) in YAML or JSON with plan, inputs, cron, interval, calendar, timezone, from, until, jitter,
overlap, catch_up and note. The plan of a file is the path of a plan, relative to that file, or a plan. Plan and inputs are
stored as they are now. The same command again changes nothing; another definition needs --replace, which keeps the tasks and
the history of the schedule.

A time of the day that a change of the clock leaves out runs right after it, and one that it repeats runs once. --dry-run shows
the next instants and creates nothing.`,
		Example: `  orch schedule create nightly report.yaml --cron '30 2 * * *' --timezone Europe/Berlin
  orch schedule create sync sync.yaml --every 15m --overlap buffer_one -i target=prod
  orch schedule create nightly -f nightly.yaml --replace`,
		Args: takes("NAME", "[PLAN.yaml]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			if len(args) > 1 {
				o.plan = args[1]
			}
			return c.create(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file with the definition, - for stdin")
	f.StringArrayVar(&o.cron, "cron", nil, "cron expression with five fields, or a name such as @daily (repeatable)")
	f.StringArrayVar(&o.every, "every", nil, "interval such as 15m, in elapsed time (repeatable)")
	f.StringVar(&o.timezone, "timezone", "", "zone of the rules, such as Europe/Berlin (default: UTC)")
	f.StringVar(&o.overlap, "overlap", "", "what happens when an earlier task still runs"+choices(overlapNames()))
	f.StringVar(&o.jitter, "jitter", "", "delay each task by less than this, always the same for an instant")
	f.StringVar(&o.catch, "catch-up", "", "how late a task may start after a time without a node (default: 1h)")
	f.StringVar(&o.from, "from", "", "first time, such as 2026-12-24 or 2026-12-24T18:00:00Z")
	f.StringVar(&o.until, "until", "", "last time")
	f.StringVar(&o.note, "note", "", "what the schedule is for")
	f.StringArrayVarP(&o.inputs, "input", "i", nil, "input as name=value or name:=json (repeatable)")
	f.StringVarP(&o.inputsFile, "inputs-file", "I", "", "JSON object of inputs")
	f.BoolVar(&o.paused, "paused", false, "pause it as well")
	f.BoolVar(&o.replace, "replace", false, "replace the definition of an existing schedule")
	f.BoolVar(&o.dryRun, "dry-run", false, "check the definition and show the next instants")
	for _, flag := range []string{"cron", "every", "timezone", "overlap", "jitter", "catch-up", "from", "until", "note", "input", "inputs-file"} {
		cmd.MarkFlagsMutuallyExclusive("file", flag)
	}
	completeFlag(cmd, "overlap", completeWords(overlapNames()))
	return cmd
}

func overlapNames() []string {
	all := schedules.Overlaps()
	names := make([]string, len(all))
	for i, o := range all {
		names[i] = string(o)
	}
	return names
}

func (c *scheduleCommands) create(ctx context.Context, o scheduleOptions) error {
	d, err := c.definition(ctx, o)
	if err != nil {
		return err
	}
	if o.dryRun {
		return c.preview(o.name, d)
	}
	return c.with(ctx, idle, func(s session) error {
		v, err := s.PutSchedule(ctx, api.PutScheduleRequest{Name: o.name, Definition: d, Replace: o.replace, Paused: o.paused, Actor: c.actor()})
		if err != nil {
			return err
		}
		c.noteIdle(s, 1)
		return c.showSchedule(v)
	})
}

// preview shows when a definition would start tasks.
func (c *scheduleCommands) preview(name string, d schedules.Definition) error {
	table, err := schedules.Compile(d.Spec)
	if err != nil {
		return err
	}
	const shown = 10
	v := api.ScheduleView{
		Name: name, Spec: d.Spec, Plan: d.Plan, Inputs: d.Inputs, Note: d.Note, Requestor: c.actor(), UpdatedAt: c.now(), Next: []time.Time{},
		Running: []schedules.Firing{}, Buffered: []schedules.Firing{}, Outcomes: []schedules.Outcome{},
	}
	for at, found := table.Next(c.now()); found && len(v.Next) < shown; at, found = table.Next(at) {
		v.Next = append(v.Next, at)
	}
	return c.showSchedule(v)
}

// definition returns what the command line defines, with the plan as the node takes it.
func (c *scheduleCommands) definition(ctx context.Context, o scheduleOptions) (schedules.Definition, error) {
	if o.file != "" {
		return c.definitionFile(ctx, o)
	}
	if o.plan == "" {
		return schedules.Definition{}, fault.New(fault.RequiredField, "is missing").WithField("PLAN.yaml").
			WithHint("usage: orch schedule create NAME PLAN.yaml --cron '30 2 * * *'")
	}
	d, err := o.flags(c.now())
	if err != nil {
		return d, err
	}
	if _, err := schedules.Compile(d.Spec); err != nil {
		return d, err
	}
	p, err := c.plans.loadPlan(ctx, o.plan)
	if err != nil {
		return d, err
	}
	d.Plan = p.JSON()
	d.Inputs, err = c.plans.planInputs(p, o.inputs, o.inputsFile)
	return d, err
}

// definitionFile reads a definition from a file. Its plan may be the path of another file.
func (c *scheduleCommands) definitionFile(ctx context.Context, o scheduleOptions) (schedules.Definition, error) {
	if o.plan != "" {
		return schedules.Definition{}, fault.New(fault.InvalidParams, "the plan of a definition is in its file").WithField("PLAN.yaml").
			WithHint("write plan: %s into %s", o.plan, o.file)
	}
	text, err := c.read(o.file, schedules.MaxText)
	if err != nil {
		return schedules.Definition{}, err
	}
	d, err := schedules.Parse(text)
	if err != nil {
		return d, err
	}
	if len(d.Plan) == 0 {
		return d, fault.New(fault.RequiredField, "is missing").WithField("plan").WithHint("the path of a plan, or a plan")
	}
	p, err := c.plans.planOf(ctx, o.file, d.Plan)
	if err != nil {
		return d, err
	}
	given := values{}
	if len(d.Inputs) > 0 {
		if err := json.Unmarshal(d.Inputs, &given); err != nil {
			return d, fault.New(fault.InvalidFormat, "is not an object").WithField("inputs")
		}
	}
	d.Plan = p.JSON()
	d.Inputs, err = c.plans.checkInputs(p, readSchema(p.Inputs), given)
	return d, err
}

// flags returns the rules that the flags define.
func (o scheduleOptions) flags(now time.Time) (schedules.Definition, error) {
	d := schedules.Definition{Note: o.note, Spec: schedules.Spec{Cron: o.cron, Timezone: o.timezone, Overlap: schedules.Overlap(o.overlap)}}
	for _, text := range o.every {
		every, err := spanFlag("--every", text)
		if err != nil {
			return d, err
		}
		d.Interval = append(d.Interval, schedules.Interval{Every: every})
	}
	var err error
	if d.Jitter, err = spanFlag("--jitter", o.jitter); err != nil {
		return d, err
	}
	if o.catch != "" {
		window, err := spanFlag("--catch-up", o.catch)
		if err != nil {
			return d, err
		}
		d.CatchUp = &window
	}
	if d.From, err = momentFlag("--from", o.from, now); err == nil {
		d.Until, err = momentFlag("--until", o.until, now)
	}
	return d, err
}

// spanFlag returns the duration of a flag; 0 for an empty one.
func spanFlag(flag, text string) (schedules.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := schedules.ParseDuration(text)
	if err != nil {
		return 0, fault.New(fault.InvalidFormat, "%w", err).WithField(flag)
	}
	return d, nil
}

// momentFlag returns the time of a flag; nil for an empty one.
func momentFlag(flag, text string, now time.Time) (*time.Time, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // a flag that is not set
	}
	at, err := parseMoment(flag, text, now)
	if err != nil {
		return nil, err
	}
	at = at.UTC()
	return &at, nil
}
