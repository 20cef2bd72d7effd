package main

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
)

func newGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "get ID",
		Aliases:           []string{"show", "status"},
		Short:             "Show the state of a task and its steps",
		Example:           "  orch get @last",
		Args:              takes("ID"),
		ValidArgsFunction: a.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.get(cmd.Context(), args[0]) },
	}
}

func (a *app) get(ctx context.Context, text string) error {
	return a.withTask(ctx, idle, text, func(s session, id events.TaskID) error {
		t, err := s.Get(ctx, api.GetRequest{ID: id})
		if err != nil {
			return err
		}
		return a.showTask(t)
	})
}

// showTask writes a task in every form of output.
func (a *app) showTask(t api.TaskView) error {
	return a.emit(view{data: t, names: []string{string(t.ID)}, text: func(w io.Writer) error {
		lines := treeRenderer{a.style(a.outTTY), a.now()}.task(t)
		lines = append(lines, particulars(t)...)
		lines = append(lines, complaints(t)...)
		if len(t.Output) > 0 {
			lines = append(append(lines, "", "outputs:"), indent(screen.Object(t.Output))...)
		}
		return writeLines(w, lines)
	}})
}

// complaints returns the whole texts of errors, of which the tree shows the beginning: that of the task, and those of steps
// that it does not tell.
func complaints(t api.TaskView) []string {
	var lines []string
	told := ""
	if t.Error != nil {
		told = t.Error.Error()
		lines = append(append(lines, ""), whole("error: "+told)...)
		if t.Error.Hint != "" {
			lines = append(lines, whole("hint: "+t.Error.Hint)...)
		}
	}
	for _, s := range t.Steps {
		if s.Error == nil || screen.Line(s.Error.Error()) == screen.Escape(s.Error.Error()) || strings.Contains(told, s.Error.Message) {
			continue
		}
		lines = append(append(lines, ""), whole("error of "+s.Key+": "+s.Error.Error())...)
	}
	return lines
}

// whole is a text of others with its lines.
func whole(text string) []string {
	return strings.Split(strings.ReplaceAll(screen.EscapeLines(strings.TrimSpace(text)), "\n", "\n  "), "\n")
}

// particulars returns the particulars of a task that have a value.
func particulars(t api.TaskView) []string {
	lines := []string{""}
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, name+": "+screen.Escape(value))
		}
	}
	add("summary", t.Summary)
	add("created", stamp(t.CreatedAt))
	add("updated", stamp(t.UpdatedAt))
	if t.Deadline != nil {
		add("deadline", stamp(*t.Deadline))
	}
	add("priority", t.Priority)
	add("queue", t.Queue)
	var marks []string
	for _, key := range slices.Sorted(maps.Keys(t.Labels)) {
		marks = append(marks, key+"="+t.Labels[key])
	}
	add("labels", strings.Join(marks, " "))
	add("parent", string(t.Parent))
	add("retry of", string(t.RetryOf))
	for _, id := range t.DependsOn {
		add("waits for", string(id))
	}
	for _, c := range t.Checkpoints {
		add("checkpoint", c.ID+"  "+c.Name+"  "+stamp(c.At))
	}
	if len(t.Inputs) > 0 && string(t.Inputs) != "{}" {
		lines = append(append(lines, "inputs:"), indent(screen.Object(t.Inputs))...)
	}
	return lines
}

func indent(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = "  " + line
	}
	return out
}
