package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

func newVerify(c *dataCommands) *cobra.Command {
	o := &offline{env: c.env}
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check the whole log: every file, every hash chain, every history",
		Long: `Check the whole log: every record of its files is as it was written, every position is readable, every
history is complete, every hash chain holds, and every large value is what it was. A running node checks
itself. Without one this process does, and holds the data directory meanwhile; files that are damaged
are named and left as they are.

With a FILE, check an export file instead, without a node: its signature, every hash chain, every large
value, and that every history can be folded.`,
		Example: "  orch verify -o json\n  orch verify run.orch --key node.pub",
		Args:    takes("[FILE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return c.verifyFile(cmd.Context(), o, args[0])
			}
			if err := o.onlyFiles(); err != nil {
				return err
			}
			return c.verify(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.key, "key", "", keyUsage)
	return cmd
}

func (c *dataCommands) verify(ctx context.Context) error {
	tell := c.progressLine()
	v, err := c.nodes.Verify(ctx, c.cfg, func(done, total uint64) {
		tell(fmt.Sprintf("checked %d of %d", done, total))
	})
	tell("")
	if err != nil {
		return err
	}
	if err := c.showVerdict(v); err != nil {
		return err
	}
	if v.Found > 0 {
		return fault.New(fault.DataLoss, "the log has %s", screen.Plural(v.Found, "problem")).
			WithHint("keep the data directory as it is, and bring a backup back: orch restore FILE --replace")
	}
	if v.Newer > 0 {
		return fault.New(fault.NewerStore, "%s of the log can only be checked by the newer orch that wrote them", screen.Plural(int(v.Newer), "commit")). //nolint:gosec // a count
																					WithHint("use the newer orch; nothing is damaged")
	}
	return nil
}

// showVerdict prints the problems, one per line, and then the counts.
func (c *dataCommands) showVerdict(v verifyResult) error {
	return c.emit(view{data: v.Report, names: v.Problems, text: func(w io.Writer) error {
		var counts map[string]any
		raw, err := json.Marshal(v.Report)
		if err == nil {
			err = json.Unmarshal(raw, &counts)
		}
		delete(counts, "problems")
		delete(counts, "mended")
		if counts["files_only"] == true { // counts of zero would suggest that everything is lost
			delete(counts, "files_only")
			maps.DeleteFunc(counts, func(_ string, n any) bool { return n == 0.0 })
		}
		if err == nil {
			raw, err = json.Marshal(counts)
		}
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the report cannot be written")
		}
		var lines []string
		for _, p := range v.Problems {
			lines = append(lines, screen.Escape(p))
		}
		for _, p := range v.Mended {
			lines = append(lines, "nothing is lost: "+screen.Escape(p))
		}
		return writeLines(w, append(lines, screen.Object(raw)...))
	}})
}
