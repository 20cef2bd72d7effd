package main

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
)

func newArchive(a *app) *cobra.Command {
	var age string
	cmd := &cobra.Command{
		Use:     "archive",
		Short:   "Move finished tasks to the archive, where get and replay still find them",
		Example: "  orch archive --age 7d",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.archive(cmd.Context(), age) },
	}
	cmd.Flags().StringVar(&age, "age", "24h", "only tasks that ended longer ago")
	return cmd
}

func (a *app) archive(ctx context.Context, age string) error {
	d, err := span(age)
	if err != nil || d < 0 {
		return fault.New(fault.InvalidFormat, "%q is no duration", age).WithField("--age").WithHint("write it as 12h or 7d")
	}
	return a.with(ctx, idle, func(s session) error {
		r, err := s.Archive(ctx, orchestrator.ArchiveRequest{Age: d})
		if err != nil {
			return err
		}
		return a.emit(view{data: r, names: []string{strconv.Itoa(r.Archived)}, text: func(w io.Writer) error {
			return writeLines(w, []string{screen.Plural(r.Archived, "task") + " archived"})
		}})
	})
}
