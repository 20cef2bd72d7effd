// Package bench measures orch and, in the same run, the bare message pattern: a minimal implementation of tasks with plain
// messages. Absolute figures depend on the machine and its other load, but the ratio of the two is reliable. CPU time per
// task depends least on other load.
package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Config configures what to measure, and how thoroughly.
type Config struct {
	// Dir is the directory for the data of the nodes under test. It should be on the disk to be measured. Default: the
	// directory for temporary files.
	Dir string
	// Duration is the duration of each measurement of a rate; default 2 s.
	Duration time.Duration
	// Runs is the number of measurements of each figure. The median counts. Default 3.
	Runs int
	// Scale multiplies the numbers of tasks and events in the rows that measure a fixed number of them; default 1.
	Scale float64
	// Soak is the duration of the row that observes the memory under a steady load; default 5 min.
	Soak time.Duration
	// Durabilities to measure; default fsync and relaxed.
	Durabilities []string
	// Rows selects the rows whose id begins with one of these texts; empty means all rows.
	Rows []string
	// Program is the orch binary, for child processes. Required.
	Program string
	// Before is another orch binary, such as the build before a change. The rows before-rss and before-start compare Program with it; without
	// it they are left out.
	Before string
	// Commit and Version describe the program in the report.
	Commit, Version string
	// Progress receives messages about the current measurement.
	Progress io.Writer
}

func (c Config) withDefaults() (Config, error) {
	if c.Duration <= 0 {
		c.Duration = 2 * time.Second
	}
	if c.Soak <= 0 {
		c.Soak = 5 * time.Minute
	}
	if c.Runs <= 0 {
		c.Runs = 3
	}
	if c.Scale <= 0 {
		c.Scale = 1
	}
	if len(c.Durabilities) == 0 {
		c.Durabilities = []string{"fsync", "relaxed"}
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	for _, wanted := range c.Rows {
		if !slices.ContainsFunc(IDs(), func(id string) bool { return strings.HasPrefix(id, wanted) }) {
			return c, fault.New(fault.ValidationError, "there is no row %q", wanted).WithField("rows").
				WithHint("rows are %s; the beginning of a name selects all that begin so", strings.Join(IDs(), ", "))
		}
	}
	if c.Before == "" && slices.ContainsFunc(c.Rows, func(wanted string) bool { return strings.HasPrefix(wanted, "before") }) {
		return c, fault.New(fault.RequiredField, "these rows need another program to compare with").WithField("before")
	}
	return c, nil
}

// Report is the result of a run.
type Report struct {
	At       time.Time `json:"at"`
	Version  string    `json:"version,omitempty"`
	Commit   string    `json:"commit,omitempty"`
	Go       string    `json:"go"`
	Platform string    `json:"platform"`
	CPUs     int       `json:"cpus"`
	// Scale is that of the Config.
	Scale float64 `json:"scale"`
	// Runs is the number of measurements of each figure. Seconds is the duration of each measurement of a rate.
	Runs         int      `json:"runs"`
	Seconds      float64  `json:"seconds"`
	Durabilities []string `json:"durabilities"`
	Rows         []Row    `json:"rows"`
}

// measurement measures the figures of some rows at a durability.
type measurement struct {
	ids []string
	run func(ctx context.Context, l *benchRun, durability string) ([]Row, error)
}

// benchRun is the shared state of the measurements of one run.
type benchRun struct {
	Config

	large *largeStore // built when the first row needs it
}

func measurements() []measurement {
	return slices.Concat(rates(), floorRates(), planRows(), mcpRows(), comparisons(), []measurement{
		{[]string{"ui-streams"}, uiStreams},
		{[]string{"gate-noop", "gate-read"}, gates},
		{[]string{"gateway-stdio", "gateway-http", "gateway-task"}, gateways},
		{[]string{"cold-start-new", "cold-start-existing"}, coldStarts},
		{[]string{"rss-idle", "rss-after", "rss-worker", "disk"}, footprint},
		{[]string{"soak", "soak-worker"}, soak},
		{[]string{"sleepers"}, sleepers},
		{[]string{"agents-cpu", "agents-rss"}, agents},
		{readerIDs(), readers},
		{[]string{"replay-1k-alone", "replay-100k-alone"}, replaysAlone},
		{[]string{"replay-1k-among", "replay-100k-among"}, replaysInLargeStore},
		{[]string{"page-cold", "page-first", "page-middle", "page-last"}, pages},
		{[]string{"restart-clean", "restart-kill", "restart-no-index"}, restarts},
	})
}

// IDs lists the rows in the order of the report.
func IDs() []string {
	var ids []string
	for _, m := range measurements() {
		ids = append(ids, m.ids...)
	}
	return ids
}

// Run measures the figures. On an error it also returns the results so far.
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Report{}, err
	}
	r := Report{
		At: events.Time(time.Now()), Version: cfg.Version, Commit: cfg.Commit,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0),
		Scale: cfg.Scale, Runs: cfg.Runs, Seconds: cfg.Duration.Seconds(), Durabilities: cfg.Durabilities,
	}
	l := &benchRun{Config: cfg}
	defer l.removeLarge()
	for _, durability := range cfg.Durabilities {
		for _, m := range measurements() {
			if !slices.ContainsFunc(m.ids, cfg.wants) {
				continue
			}
			l.logf("%s: %s", durability, strings.Join(m.ids, ", "))
			rows, err := m.run(ctx, l, durability)
			if err != nil {
				return r, err
			}
			for _, row := range rows {
				if cfg.wants(row.ID) {
					row.Durability = durability
					r.Rows = append(r.Rows, row.Judged())
				}
			}
		}
	}
	return r, nil
}

func (c Config) wants(id string) bool {
	return len(c.Rows) == 0 || slices.ContainsFunc(c.Rows, func(wanted string) bool { return strings.HasPrefix(id, wanted) })
}

// logf writes a progress message and ignores errors.
func (c Config) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Progress, format+"\n", args...)
}

// scaled returns n multiplied by the scale of the run.
func (c Config) scaled(n int) int { return max(int(float64(n)*c.Scale), 1) }

// fresh creates a new directory below c.Dir. The data of a node is in its subdirectory "data".
func (c Config) fresh(name string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(c.Dir, "orch-bench-"+name+"-*")
	if err != nil {
		return "", nil, fault.Wrap(fault.ExecFailed, err, "a directory for the benchmark cannot be made").
			WithHint("--dir must name a directory that exists")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, fault.Wrap(fault.ExecFailed, err, "a directory for the benchmark cannot be made")
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // leftovers are temporary files
}

// repeat measures a figure cfg.Runs times.
func repeat[T any](c Config, take func() (T, error)) ([]T, error) {
	taken := make([]T, 0, c.Runs)
	for range c.Runs {
		one, err := take()
		if err != nil {
			return nil, err
		}
		taken = append(taken, one)
	}
	return taken, nil
}
