package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
)

func newExplain(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "explain ID",
		Aliases:           []string{"why"},
		Short:             "Say why a task does not move",
		Example:           "  orch explain @last",
		Args:              takes("ID"),
		ValidArgsFunction: a.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.explain(cmd.Context(), args[0]) },
	}
}

func (a *app) explain(ctx context.Context, text string) error {
	return a.withTask(ctx, idle, text, func(s session, id events.TaskID) error {
		r, err := s.Explain(ctx, api.GetRequest{ID: id})
		if err != nil {
			return err
		}
		for i, c := range r.Causes {
			if s.Embedded() {
				r.Causes[i] = withoutNode(c, id)
			}
		}
		v := view{data: r, rows: rowsOf(r.Causes), names: []string{string(id)}}
		v.text = func(w io.Writer) error {
			var lines []string
			for _, c := range r.Causes {
				lines = append(lines, screen.Escape(c.Sentence))
				if c.Next != "" {
					lines = append(lines, "  try: "+screen.Escape(c.Next))
				}
			}
			return writeLines(w, lines)
		}
		return a.emit(v)
	})
}
