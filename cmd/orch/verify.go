package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

func newVerify(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Check the whole log: every hash chain, every history",
		Long: `Check the whole log: every position is readable, every history is complete, every hash chain holds, and
every large value is what it was. It holds the data directory meanwhile, so no node may run on it.`,
		Example: "  orch verify -o json",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.verify(cmd.Context()) },
	}
}

func (a *app) verify(ctx context.Context) error {
	shown := a.errTTY && a.cfg.Output == "text"
	tell := func(text string) {
		if shown {
			_, _ = io.WriteString(a.err, "\r"+text+"\x1b[K") // stderr is closed: nobody reads
		}
	}
	v, err := a.nodes.Verify(ctx, a.cfg, func(done, total uint64) {
		tell(fmt.Sprintf("checked %d of %d", done, total))
	})
	tell("")
	if err != nil {
		return err
	}
	if err := a.showVerdict(v); err != nil {
		return err
	}
	if v.Found > 0 {
		return fault.New(fault.DataLoss, "the log has %s", screen.Plural(v.Found, "problem")).
			WithHint("keep the data directory as it is, and restore a backup")
	}
	return nil
}

func (a *app) showVerdict(v verdict) error {
	return a.emit(view{data: v.Report, text: func(w io.Writer) error {
		raw, err := json.Marshal(v.Report)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the report cannot be written")
		}
		return writeLines(w, screen.Object(raw))
	}})
}
