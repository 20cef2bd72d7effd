package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

func newReplay(c *readCommands) *cobra.Command {
	var at uint64
	o := &offline{env: c.env}
	cmd := &cobra.Command{
		Use:   "replay ID|FILE",
		Short: "Fold the recorded history again, call nothing, and check it",
		Long: `Fold the recorded history again, call nothing, and check it. An argument with a slash or the ending .orch is
an export file, which needs no node.`,
		Example:           "  orch replay @last --at 3\n  orch replay ./run.orch",
		Args:              takes("ID"),
		ValidArgsFunction: c.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if isExportFile(args[0]) {
				return c.replayFile(cmd.Context(), o, args[0], at)
			}
			if err := o.onlyFiles(); err != nil {
				return err
			}
			return c.replay(cmd.Context(), args[0], at)
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().Uint64Var(&at, "at", 0, "stop at this revision (0: the newest)")
	return cmd
}

func (c *readCommands) replay(ctx context.Context, text string, at uint64) error {
	return c.withTask(ctx, idle, text, func(s session, id events.TaskID) error {
		r, err := s.Replay(ctx, api.ReplayRequest{ID: id, At: at})
		if err != nil {
			return err
		}
		if err := c.showReplay(id, r); err != nil {
			return err
		}
		if !r.Chain || r.Live != nil && !*r.Live {
			return fault.New(fault.DataLoss, "the replay of %s differs from what the node holds", id).WithHint("check the whole log: orch verify")
		}
		return nil
	})
}

func (c *readCommands) showReplay(id events.TaskID, r api.ReplayReply) error {
	return c.emit(view{data: r, names: []string{string(id)}, text: func(w io.Writer) error {
		var lines []string
		if r.Task != nil {
			lines = treeRenderer{c.style(c.outTTY), r.Task.UpdatedAt}.folded(r.Task)
		}
		return writeLines(w, append(lines, replayLine(r)))
	}})
}

// replayLine returns the result of a replay in one line.
func replayLine(r api.ReplayReply) string {
	chain, live := "chain BROKEN", ""
	if r.Chain {
		chain = "chain ok"
	}
	switch {
	case r.Live == nil:
	case *r.Live:
		live = ", fold == live"
	default:
		live = ", fold DIFFERS from live"
	}
	return fmt.Sprintf("%s, %s, %s, 0 tool calls%s (%s)", chain, screen.Plural(r.Commits, "commit"), screen.Plural(r.Events, "event"), live, screen.Duration(r.Duration))
}

// folded draws the state that results from folding a history, in the same form as a task.
func (d treeRenderer) folded(t *statemachine.Task) []string {
	v := api.TaskView{ID: t.ID, State: t.State, Reason: t.Reason, Paused: t.Paused, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt}
	if t.Submitted != nil {
		v.Name = t.Submitted.Name
	}
	for _, key := range t.Order {
		s := t.Steps[key]
		if s == nil {
			continue
		}
		v.Steps = append(v.Steps, api.StepView{
			Key: key, State: s.State, Tool: s.Tool, Attempt: s.Attempt, Since: timeOrNil(s.Since), Due: timeOrNil(s.Due), Signal: s.Signal,
			Child: s.Child, Duration: s.Duration, Error: s.Error, Reason: s.Reason,
		})
	}
	return d.task(v)
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
