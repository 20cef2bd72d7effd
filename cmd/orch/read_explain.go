package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
)

func newExplain(c *readCommands) *cobra.Command {
	return &cobra.Command{
		Use:               "explain ID",
		Aliases:           []string{"why"},
		Short:             "Say why a task does not move",
		Example:           "  orch explain @last",
		Args:              takes("ID"),
		ValidArgsFunction: c.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.explain(cmd.Context(), args[0]) },
	}
}

func (c *readCommands) explain(ctx context.Context, text string) error {
	return c.withTask(ctx, idle, text, func(s session, id events.TaskID) error {
		r, err := s.Explain(ctx, api.GetRequest{ID: id})
		if err != nil {
			return err
		}
		for i, cause := range r.Causes {
			if s.Embedded() {
				r.Causes[i] = withoutNode(cause, id)
			}
		}
		v := view{data: r, rows: rowsOf(r.Causes), names: []string{string(id)}}
		v.text = func(w io.Writer) error {
			var lines []string
			for _, cause := range r.Causes {
				lines = append(lines, screen.Escape(cause.Sentence))
				if cause.Next != "" {
					lines = append(lines, "  try: "+screen.Escape(cause.Next))
				}
			}
			return writeLines(w, lines)
		}
		return c.emit(v)
	})
}
