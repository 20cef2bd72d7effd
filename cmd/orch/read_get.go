package main

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

func newGet(c *readCommands) *cobra.Command {
	step := ""
	cmd := &cobra.Command{
		Use:     "get ID",
		Aliases: []string{"show", "status"},
		Short:   "Show the state of a task and its steps",
		Long: `Show the state of a task and its steps. The time of the task is from its submission to its end, with queues and waits.
The time of a step is how long its newest attempt ran, as its worker measured it, without its time in the queue; of an
approval it is the wait for the decision.

With --step it prints what a step has returned, however large it is; of a step that has failed because of ` + "`expect`" + `, the
result that the plan did not expect.`,
		Example:           "  orch get @last\n  orch get @last --step tests",
		Args:              takes("ID"),
		ValidArgsFunction: c.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.get(cmd.Context(), args[0], step) },
	}
	cmd.Flags().StringVar(&step, "step", "", "print what this step has returned, such as tests or each[3].call")
	return cmd
}

func (c *readCommands) get(ctx context.Context, text, step string) error {
	return c.withTask(ctx, idle, text, func(s session, id events.TaskID) error {
		t, err := s.Get(ctx, api.GetRequest{ID: id})
		if err != nil {
			return err
		}
		if step != "" {
			return c.showStep(ctx, s, t, step)
		}
		return c.showTask(t)
	})
}

// showStep prints one step with all of its output.
func (c *readCommands) showStep(ctx context.Context, s session, t api.TaskView, key string) error {
	at := slices.IndexFunc(t.Steps, func(s api.StepView) bool { return s.Key == key })
	if at < 0 {
		return fault.New(fault.NotFound, "the task has no step %q", key).WithField("step").WithHint("orch get %s lists them", t.ID)
	}
	step := t.Steps[at]
	var err error
	if step.Output, err = wholeValue(ctx, s, t.ID, step.Output); err != nil {
		return err
	}
	return c.emit(view{data: step, names: []string{step.Key}, text: func(w io.Writer) error {
		if step.Error != nil {
			c.note("%s", strings.Join(textLines(step.Error.Error()), "\n"))
		}
		if len(step.Output) == 0 {
			c.note("%s is %s, and has returned nothing", screen.Escape(key), step.State)
			return nil
		}
		return writeLines(w, screen.Object(step.Output))
	}})
}

// wholeValue returns a value, of which a view has left out what was too large for it.
func wholeValue(ctx context.Context, s session, id events.TaskID, raw json.RawMessage) (json.RawMessage, error) {
	var left struct {
		Omitted string `json:"$omitted"`
		Ref     string `json:"$blob"`
	}
	_ = json.Unmarshal(raw, &left) // any other value is whole
	if left.Omitted == "" || left.Ref == "" {
		return raw, nil
	}
	var whole []byte
	for r := (api.ValueRequest{ID: id, Ref: left.Ref}); ; {
		part, err := s.Value(ctx, r)
		if err != nil {
			return nil, err
		}
		whole = append(whole, part.Text...)
		if r.Offset = part.Next; r.Offset == 0 {
			return whole, nil
		}
	}
}

// textLines returns the lines of an untrusted text, escaped.
func textLines(text string) []string {
	return strings.Split(strings.ReplaceAll(screen.EscapeLines(strings.TrimSpace(text)), "\n", "\n  "), "\n")
}
