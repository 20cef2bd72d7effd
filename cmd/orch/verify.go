package main

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

func newVerify(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "verify",
		Short:   "Check the whole log: every hash chain, every history",
		Example: "  orch verify -o json",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.verify(cmd.Context()) },
	}
}

func (a *app) verify(ctx context.Context) error {
	style := a.style(a.errTTY)
	report, err := a.nodes.Verify(ctx, a.cfg, func(commits int) {
		if a.errTTY && a.cfg.Output == "text" {
			_, _ = io.WriteString(a.err, "\r"+style.Dim("checked "+screen.Plural(commits, "commit"))+"\x1b[K")
		}
	})
	if a.errTTY && a.cfg.Output == "text" {
		_, _ = io.WriteString(a.err, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	return a.emit(view{data: report, names: []string{"ok"}, text: func(w io.Writer) error {
		raw, err := json.Marshal(report)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the report cannot be written")
		}
		return writeLines(w, screen.Object(raw))
	}})
}
