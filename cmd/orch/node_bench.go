package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/bench"
	"github.com/orch-dev/orch/fault"
)

// benchOptions are the flags of `orch bench`.
type benchOptions struct {
	dir, durability, rows, before, file, role string
	length, soak                              time.Duration
	runs                                      int
	quick                                     bool
}

func newBench(c *nodeCommands) *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine, beside the figures to reach and the bare message pattern",
		Long: `Measure rates, latency, long plans, MCP, open pages, cold start, memory, disk, timers, replay, pages of histories and restart
on each durability level, beside the figures to reach and, where there is an equivalent, the bare message pattern in the same
run, or a bare server of MCP's SDK. The ratio and the CPU time a task are the figures that can be compared between machines.
All rows take about an hour and a quarter; --quick takes seven minutes with smaller stores, shorter plans and single runs.

Rows: ` + strings.Join(bench.IDs(), " ") + `.`,
		Example: "  orch bench --quick\n  orch bench --rows 1-step,latency --durability fsync --report bench.json",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.bench(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "where the data of the measured nodes goes (default: a temporary directory)")
	f.StringVar(&o.rows, "rows", "", "measure only rows whose names begin with these, separated by commas")
	f.StringVar(&o.durability, "durability", "", "measure only this level: fsync or relaxed")
	f.DurationVar(&o.length, "for", 2*time.Second, "length of each measurement of a rate")
	f.DurationVar(&o.soak, "soak", 5*time.Minute, "length of the steady load of the rows soak")
	f.IntVar(&o.runs, "runs", 3, "how often each figure is taken; the median counts")
	f.BoolVar(&o.quick, "quick", false, "single short runs, large stores at 1/50 of their size, a soak of 10 s")
	f.StringVar(&o.before, "before", "", "another orch binary to compare memory and start with, such as an older build")
	f.StringVar(&o.file, "report", "", "also write the report as JSON into this file")
	f.StringVar(&o.role, "role", "", "what this process does for a benchmark that is another process")
	_ = f.MarkHidden("role") // the flag was just defined
	return cmd
}

func (c *nodeCommands) bench(ctx context.Context, o benchOptions) error {
	if o.role != "" {
		return bench.RunRole(ctx, bench.Role(o.role), o.dir, o.durability, c.in, c.out)
	}
	program, err := os.Executable()
	if err != nil {
		return fault.Wrap(fault.ExecFailed, err, "the path of this program is unknown")
	}
	v := readVersion()
	cfg := bench.Config{
		Dir: o.dir, Duration: o.length, Soak: o.soak, Runs: o.runs, Program: program, Before: o.before, Version: v.Version, Commit: v.Commit, Progress: c.err,
		Rows: splitList(o.rows), Durabilities: splitList(o.durability),
	}
	if o.quick {
		cfg.Duration, cfg.Soak, cfg.Runs, cfg.Scale = time.Second, 10*time.Second, 1, 0.02
	}
	report, err := bench.Run(ctx, cfg)
	if len(report.Rows) == 0 {
		return err
	}
	if o.file != "" {
		err = errors.Join(err, writeReport(o.file, report))
	}
	// After an interrupt, the results so far are reported too.
	return errors.Join(err, c.emit(view{data: report, text: func(w io.Writer) error { return bench.Print(w, report) }}))
}

func writeReport(file string, report bench.Report) error {
	f, err := os.Create(file)
	if err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the report cannot be written")
	}
	defer f.Close()
	return writeJSON(f, report)
}

// splitList splits the value of a flag at commas; nil if it is empty.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
