package main

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/benchmark"
)

// benchOptions are the flags of `orch bench`.
type benchOptions struct {
	dir, durability, only, role string
	length                      time.Duration
}

func newBench(a *app) *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: tasks per second and latency, beside the bare message pattern",
		Long: `Measure tasks per second and latency, embedded and as three processes, on each durability level, beside the
bare message pattern in the same run. The ratio is the figure that can be compared between machines.`,
		Example: "  orch bench --for 3s --only 'three processes'",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.bench(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "where the data of the measured nodes goes (default: a temporary directory)")
	f.StringVar(&o.only, "only", "", "measure only rows whose name contains this")
	f.StringVar(&o.durability, "durability", "", "measure only this level: fsync or relaxed")
	f.DurationVar(&o.length, "for", 3*time.Second, "length of each measurement")
	f.StringVar(&o.role, "role", "", "what this process does for a benchmark that is another process")
	_ = f.MarkHidden("role") // the flag exists: it was just defined
	return cmd
}

func (a *app) bench(ctx context.Context, o benchOptions) error {
	if o.role != "" {
		return benchmark.RunRole(ctx, benchmark.Role(o.role), o.dir, o.durability, a.in, a.out)
	}
	program, err := os.Executable()
	if err != nil {
		return fault.Wrap(fault.ExecFailed, err, "the path of this program is unknown")
	}
	cfg := benchmark.Config{Dir: o.dir, For: o.length, Program: program, Only: o.only, Progress: a.err}
	if o.durability != "" {
		cfg.Durabilities = strings.Split(o.durability, ",")
	}
	rows, err := benchmark.Run(ctx, cfg)
	if err != nil {
		return err
	}
	return a.emit(view{data: rows, text: func(w io.Writer) error { return benchmark.Print(w, rows) }})
}
