package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/schedules"
)

func newSchedulePause(c *scheduleCommands) *cobra.Command {
	var note string
	cmd := c.steering(&cobra.Command{
		Use:     "pause NAME",
		Short:   "Keep a schedule from starting tasks",
		Example: "  orch schedule pause nightly --note 'the disk is being replaced'",
	}, func() api.SteerScheduleRequest { return api.SteerScheduleRequest{Act: api.ActPause, Note: note} })
	cmd.Flags().StringVar(&note, "note", "", "why")
	return cmd
}

func newScheduleResume(c *scheduleCommands) *cobra.Command {
	return c.steering(&cobra.Command{
		Use:   "resume NAME",
		Short: "Let a paused schedule start tasks again",
		Long: `Let a paused schedule start tasks again. What was due during the pause does not start; orch schedule backfill makes up
for it.`,
		Example: "  orch schedule resume nightly",
	}, func() api.SteerScheduleRequest { return api.SteerScheduleRequest{Act: api.ActResume} })
}

// steering completes a command that changes what a schedule does.
func (c *scheduleCommands) steering(cmd *cobra.Command, request func() api.SteerScheduleRequest) *cobra.Command {
	cmd.Args = takes("NAME")
	cmd.ValidArgsFunction = c.completeSchedules
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.with(cmd.Context(), idle, func(s session) error {
			reply, err := c.steer(cmd.Context(), s, args[0], request())
			if err != nil {
				return err
			}
			c.noteIdle(s, 1)
			return c.showSchedule(reply.Schedule)
		})
	}
	return cmd
}

func (c *scheduleCommands) steer(ctx context.Context, s session, name string, r api.SteerScheduleRequest) (api.SteerScheduleReply, error) {
	r.Name, r.Actor = name, c.actor()
	return s.SteerSchedule(ctx, r)
}

func newScheduleTrigger(c *scheduleCommands) *cobra.Command {
	var overlap string
	cmd := &cobra.Command{
		Use:   "trigger NAME",
		Short: "Start a task of a schedule now",
		Long: `Start a task of a schedule now, also while it is paused, and print its id. The overlap policy counts: if it lets the task
wait for another one, there is no id yet. Without a node, the task begins when one runs.`,
		Example:           "  orch watch $(orch schedule trigger nightly -o name)",
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeSchedules,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := c.steer(cmd.Context(), s, args[0], api.SteerScheduleRequest{Act: api.ActTrigger, Overlap: schedules.Overlap(overlap)})
				if err != nil {
					return err
				}
				c.noteIdle(s, 1)
				return c.showTriggered(reply)
			})
		},
	}
	addOverlap(cmd, &overlap, "that of the schedule")
	return cmd
}

func addOverlap(cmd *cobra.Command, overlap *string, usual string) {
	cmd.Flags().StringVar(overlap, "overlap", "", "what happens when an earlier task still runs"+choices(overlapNames())+" (default: "+usual+")")
	completeFlag(cmd, "overlap", completeWords(overlapNames()))
}

func (c *scheduleCommands) showTriggered(r api.SteerScheduleReply) error {
	if r.Task == "" {
		return c.emit(view{data: r, text: func(w io.Writer) error {
			text := "  waits for the end of " + screen.Plural(len(r.Schedule.Running), "running task")
			if ahead := len(r.Schedule.Buffered) - 1; ahead > 0 {
				text += ", and for " + screen.Plural(ahead, "firing") + " before it"
			}
			return writeLines(w, []string{r.Schedule.Name + text})
		}})
	}
	return c.emit(view{data: r, names: []string{string(r.Task)}, text: func(w io.Writer) error {
		return writeLines(w, []string{string(r.Task)})
	}})
}

func newScheduleBackfill(c *scheduleCommands) *cobra.Command {
	var from, to, overlap string
	cmd := &cobra.Command{
		Use:   "backfill NAME --from TIME",
		Short: "Start the tasks of a time in the past that a schedule has not started",
		Long: `Start the tasks of a time in the past that a schedule has not started: before it was created, during a pause, or while no node
ran. Instants that have a task start none again. The tasks run one after the other, at most 1,000 with one command.`,
		Example:           "  orch schedule backfill nightly --from 2026-11-01 --to 2026-11-08",
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeSchedules,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := api.SteerScheduleRequest{Act: api.ActBackfill, Overlap: schedules.Overlap(overlap)}
			var err error
			now := c.now()
			if r.From, err = momentFlag("--from", from, now); err != nil {
				return err
			}
			if r.To, err = momentFlag("--to", to, now); err != nil {
				return err
			}
			if r.From == nil {
				return fault.New(fault.RequiredField, "is missing").WithField("--from").WithHint("such as --from 2026-11-01, or --from 7d")
			}
			if r.To == nil {
				now = now.UTC()
				r.To = &now
			}
			return c.backfill(cmd.Context(), args[0], r)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "first time: 7d ago, a date or a time")
	cmd.Flags().StringVar(&to, "to", "", "last time (default: now)")
	addOverlap(cmd, &overlap, "buffer_all")
	return cmd
}

func (c *scheduleCommands) backfill(ctx context.Context, name string, r api.SteerScheduleRequest) error {
	return c.with(ctx, idle, func(s session) error {
		reply, err := c.steer(ctx, s, name, r)
		if err != nil {
			return err
		}
		c.noteIdle(s, reply.Firings)
		return c.emit(view{data: reply, names: []string{name}, text: func(w io.Writer) error {
			return writeLines(w, []string{name + "  " + screen.Plural(reply.Firings, "task") + " to start"})
		}})
	})
}

func newScheduleDelete(c *scheduleCommands) *cobra.Command {
	return &cobra.Command{
		Use:               "delete NAME",
		Short:             "Delete a schedule; its tasks go on",
		Example:           "  orch schedule delete nightly",
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeSchedules,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := c.steer(cmd.Context(), s, args[0], api.SteerScheduleRequest{Act: api.ActDelete})
				if err != nil {
					return err
				}
				return c.emit(view{data: reply, names: []string{args[0]}, text: func(w io.Writer) error {
					text := args[0] + "  deleted"
					if n := len(reply.Schedule.Running); n > 0 {
						text += "; " + screen.Plural(n, "running task") + " of it: orch list --label schedule=" + args[0]
					}
					if n := len(reply.Schedule.Buffered); n > 0 {
						text += "; " + screen.Plural(n, "waiting start") + " dropped"
					}
					return writeLines(w, []string{text})
				}})
			})
		},
	}
}
