// Package bench measures orch beside the bare message pattern of the same run: the absolute
// figures depend on the machine and its other load, the ratio is the figure that holds. CPU time a
// task depends least on others who use the machine.
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

// Config says what to measure, and how thoroughly.
type Config struct {
	// Dir is where the data of the nodes under test goes; it should lie on the disk that matters.
	// Default: the directory for temporary files.
	Dir string
	// For is the length of each measurement of a rate; default 2 s.
	For time.Duration
	// Runs is how often each figure is taken; the median counts. Default 3.
	Runs int
	// Scale multiplies the numbers of tasks and events of the rows that need many; default 1.
	Scale float64
	// Durabilities to measure; default fsync and relaxed.
	Durabilities []string
	// Rows restricts the rows to those whose id begins with one of these; empty means all.
	Rows []string
	// Program is the orch binary, for processes beside this one. Required.
	Program string
	// Commit and Version describe the program in the report.
	Commit, Version string
	// Progress is told what is being measured.
	Progress io.Writer
}

func (c Config) withDefaults() (Config, error) {
	if c.For <= 0 {
		c.For = 2 * time.Second
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
	return c, nil
}

// Report is the outcome of a run.
type Report struct {
	At       time.Time `json:"at"`
	Version  string    `json:"version,omitempty"`
	Commit   string    `json:"commit,omitempty"`
	Go       string    `json:"go"`
	Platform string    `json:"platform"`
	CPUs     int       `json:"cpus"`
	// Scale is what the numbers of tasks and events of the large rows were multiplied with.
	Scale float64 `json:"scale"`
	// Runs is how often each figure was taken, Seconds the length of a measurement of a rate.
	Runs         int      `json:"runs"`
	Seconds      float64  `json:"seconds"`
	Durabilities []string `json:"durabilities"`
	Rows         []Row    `json:"rows"`
}

// measurement takes the figures of some rows at a level of durability.
type measurement struct {
	ids []string
	run func(ctx context.Context, l *lab, durability string) ([]Row, error)
}

// lab is what the measurements of one run share.
type lab struct {
	Config

	large *largeStore // built when the first row needs it
}

func measurements() []measurement {
	return slices.Concat(rates(), faceRows(), []measurement{
		{[]string{"gate-noop", "gate-read"}, gates},
		{[]string{"gateway-stdio", "gateway-http", "gateway-task"}, gateways},
		{[]string{"cold-start-new", "cold-start-existing"}, coldStarts},
		{[]string{"rss-idle", "rss-after", "disk"}, footprint},
		{[]string{"sleepers"}, sleepers},
		{[]string{"replay-1k-alone", "replay-100k-alone"}, replaysAlone},
		{[]string{"replay-1k-among", "replay-100k-among"}, replaysAmong},
		{[]string{"restart-clean", "restart-kill"}, restarts},
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

// Run takes the figures. With an error it also returns what it has so far.
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Report{}, err
	}
	r := Report{
		At: events.Time(time.Now()), Version: cfg.Version, Commit: cfg.Commit,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0),
		Scale: cfg.Scale, Runs: cfg.Runs, Seconds: cfg.For.Seconds(), Durabilities: cfg.Durabilities,
	}
	l := &lab{Config: cfg}
	defer l.removeLarge()
	for _, durability := range cfg.Durabilities {
		for _, m := range measurements() {
			if !slices.ContainsFunc(m.ids, cfg.wants) {
				continue
			}
			l.say("%s: %s", durability, strings.Join(m.ids, ", "))
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

// say reports progress; nobody may be reading it.
func (c Config) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Progress, format+"\n", args...)
}

// scaled is a number of tasks or events at the scale of the run.
func (c Config) scaled(n int) int { return max(int(float64(n)*c.Scale), 1) }

// fresh makes a new directory below c.Dir; the data of a node goes into "data" inside of it.
func (c Config) fresh(name string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(c.Dir, "orch-bench-"+name+"-*")
	if err != nil {
		return "", nil, fault.Wrap(fault.ExecFailed, err, "a directory for the benchmark cannot be made")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, fault.Wrap(fault.ExecFailed, err, "a directory for the benchmark cannot be made")
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // what stays lies among temporary files
}

// repeat takes a figure cfg.Runs times.
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
