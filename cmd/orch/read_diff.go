package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/compare"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// diffOptions are the flags of `orch diff`.
type diffOptions struct {
	offline

	// tasks are the tasks of export files: one for both files, or that of each.
	tasks []string
}

// side returns how to read one of the two files: 0 or 1.
func (o *diffOptions) side(i int) *offline {
	side := o.offline
	if len(o.tasks) > 0 {
		side.task = o.tasks[min(i, len(o.tasks)-1)]
	}
	return &side
}

// check returns an error if there are more tasks than files, or flags for files without a file.
func (o *diffOptions) check(a, b string) error {
	files := 0
	for _, arg := range []string{a, b} {
		if isExportFile(arg) {
			files++
		}
	}
	switch {
	case files == 0:
		return o.side(0).onlyFiles()
	case len(o.tasks) > files:
		return fault.New(fault.InvalidParams, "--task is given %d times, for %s", len(o.tasks), screen.Plural(files, "file")).WithField("--task").
			WithHint("once for both files, or once for each: the task of A, then the task of B")
	default:
		return nil
	}
}

func newDiff(c *readCommands) *cobra.Command {
	o := &diffOptions{offline: offline{env: c.env}}
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show what differs between two tasks",
		Long: `Show what differs between two tasks: what they are, plans, inputs, steps, outputs and times. An argument with a slash
or the ending .orch is an export file; two files need no node. Of files with several tasks --task chooses one: given once that of
both files, given twice that of A and that of B. The exit code is 0 whether or not the tasks differ.`,
		Example: "  orch diff TASK_01JD0000000000000000000000 @last\n  orch diff ./before.orch ./after.orch\n" +
			"  orch diff ./both.orch ./both.orch --task TASK_01JD0000000000000000000000 --task TASK_01JD0000000000000000000001",
		Args:              takes("A", "B"),
		ValidArgsFunction: c.completeIDs(2),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.diff(cmd.Context(), o, args[0], args[1]) },
	}
	cmd.Flags().StringArrayVar(&o.tasks, "task", nil, "of export files with several tasks: the task, or the beginning of its id; twice for those of A and B")
	o.addKeyFlag(cmd.Flags())
	return cmd
}

func (c *readCommands) diff(ctx context.Context, o *diffOptions, a, b string) error {
	if err := o.check(a, b); err != nil {
		return err
	}
	if isExportFile(a) && isExportFile(b) {
		return c.diffSides(ctx, o, nil, a, b)
	}
	return c.with(ctx, idle, func(s session) error {
		if isExportFile(a) || isExportFile(b) {
			return c.diffSides(ctx, o, s, a, b)
		}
		first, err := c.find(ctx, s, a)
		if err != nil {
			return err
		}
		second, err := c.find(ctx, s, b)
		if err != nil {
			return err
		}
		reply, err := s.Diff(ctx, api.DiffRequest{A: first, B: second})
		if err != nil {
			return err
		}
		return c.showDiff(reply)
	})
}

// diffSides compares two tasks of which at least one is in an export file. Large values are compared by their digests.
func (c *readCommands) diffSides(ctx context.Context, o *diffOptions, s session, a, b string) error {
	var sides [2]compare.Side
	for i, arg := range []string{a, b} {
		task, err := c.side(ctx, o.side(i), s, arg)
		if e := fault.From(err); err != nil && s == nil && e.Field == "--task" && len(o.tasks) < 2 {
			return e.WithHint("--task ID of %s, then --task ID of %s; orch verify FILE lists the tasks of a file", a, b)
		}
		if err != nil {
			return err
		}
		sides[i] = compare.Side{Task: task, Value: digestOf}
	}
	return c.showDiff(compare.Tasks(sides[0], sides[1]))
}

// side returns a task of an export file or of the node.
func (c *readCommands) side(ctx context.Context, o *offline, s session, arg string) (*statemachine.Task, error) {
	if isExportFile(arg) {
		r := &recording{}
		err := o.load(ctx, arg, r)
		return r.task, err
	}
	id, err := c.find(ctx, s, arg)
	if err != nil {
		return nil, err
	}
	reply, err := s.Replay(ctx, api.ReplayRequest{ID: id})
	return reply.Task, err
}

// digestOf returns a value, or the digest of a large one.
func digestOf(v events.Value) json.RawMessage {
	if v.Ref() == "" {
		return v.Raw
	}
	return json.RawMessage(`{"$sha256":"` + v.Ref() + `"}`)
}

func (c *readCommands) showDiff(r api.DiffReply) error {
	return c.emit(view{data: r, rows: rowsOf(r.Entries), names: diffPaths(r), text: func(w io.Writer) error { return writeLines(w, taskDiffLines(r)) }})
}

func diffPaths(r api.DiffReply) []string {
	names := make([]string, len(r.Entries))
	for i, e := range r.Entries {
		names[i] = e.Path
	}
	return names
}

// taskDiffLines shows the differences by part, and a summary.
func taskDiffLines(r api.DiffReply) []string {
	lines := []string{"- " + string(r.A), "+ " + string(r.B)}
	part := ""
	for _, e := range r.Entries {
		if e.Part != part {
			part = e.Part
			lines = append(lines, "", part)
		}
		lines = append(lines, "  "+screen.Escape(e.Path), "    - "+shownSide(e.A), "    + "+shownSide(e.B))
	}
	if len(r.Entries) == 0 {
		return append(lines, "", "the tasks do not differ, but for their ids")
	}
	summary := fmt.Sprintf("%s; of the steps %d differ and %d are the same", screen.Plural(len(r.Entries)+r.Omitted, "difference"), r.Different, r.Same)
	if r.Omitted > 0 {
		summary += fmt.Sprintf(" (the first %d are shown)", len(r.Entries))
	}
	return append(lines, "", summary)
}

// shownSide shows a value in one line.
func shownSide(v json.RawMessage) string {
	const most = 200
	if v == nil {
		return "(absent)"
	}
	var text string
	if json.Unmarshal(v, &text) == nil {
		return screen.Clip(text, most)
	}
	return screen.Clip(string(v), most)
}
