// Package benchmark measures orch beside the bare message pattern of the same run: the absolute
// figures depend on the machine and its other load, the ratio is the figure that holds.
package benchmark

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/node"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools"
)

// Config says what to measure.
type Config struct {
	// Dir is where the data of the nodes under test goes; it should lie on the disk that matters.
	Dir string
	// For is the length of each measurement; default 3 s.
	For time.Duration
	// Durabilities to measure; default fsync and relaxed.
	Durabilities []string
	// Program is the orch binary for the layout of three processes.
	Program string
	// Only restricts the rows to those whose name contains it.
	Only string
	// Progress is told what is being measured.
	Progress io.Writer
}

// Row is one measurement.
type Row struct {
	Name       string  `json:"name"`
	Durability string  `json:"durability"`
	Unit       string  `json:"unit"`
	Value      float64 `json:"value"`
	P50Millis  float64 `json:"p50_ms,omitempty"`
	P99Millis  float64 `json:"p99_ms,omitempty"`
	// Bare is the same figure for the bare message pattern in the same layout and the same run.
	Bare float64 `json:"bare,omitempty"`
	// Ratio is Value / Bare.
	Ratio float64 `json:"ratio,omitempty"`
}

// Tool is the tool that does nothing, which benchmark nodes and workers offer beside the built-in
// ones.
func Tool() tools.Tool {
	type nothing struct{}
	return tools.Define(tools.Spec{
		Name: "BENCH_NOOP", Purpose: "Do nothing, for benchmarks", Effect: tools.Read, Gate: tools.AnyState,
		Approval: tools.NoApproval, NoWorkspace: true,
	}, func(context.Context, *tools.Env, nothing) (nothing, error) { return nothing{}, nil })
}

// Run measures every row and returns them in a fixed order.
func Run(ctx context.Context, cfg Config) ([]Row, error) {
	if cfg.For <= 0 {
		cfg.For = 3 * time.Second
	}
	if len(cfg.Durabilities) == 0 {
		cfg.Durabilities = []string{"fsync", "relaxed"}
	}
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	var rows []Row
	for _, durability := range cfg.Durabilities {
		for _, layout := range []func(context.Context, Config, string) ([]Row, error){embedded, processes} {
			more, err := layout(ctx, cfg, durability)
			if err != nil {
				return rows, err
			}
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

// Print writes rows as a table.
func Print(w io.Writer, rows []Row) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "row\tdurability\tvalue\tunit\tp50 ms\tp99 ms\tbare pattern\tratio")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Durability, number(r.Value, "%.0f"), r.Unit,
			number(r.P50Millis, "%.2f"), number(r.P99Millis, "%.2f"), number(r.Bare, "%.0f"), number(r.Ratio, "%.2f"))
	}
	return tw.Flush()
}

func number(v float64, format string) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// workload is one way to use a node.
type workload struct {
	name     string
	steps    int
	inFlight int
	batch    int
}

func workloads() []workload {
	return []workload{
		{name: "1-step tasks", steps: 1, inFlight: 4000},
		{name: "10-step workflows", steps: 10, inFlight: 1000},
		{name: "1-step tasks, one at a time", steps: 1, inFlight: 1},
		{name: "1-step tasks, 64 at a time", steps: 1, inFlight: 64},
		{name: "submit only, 16 clients", steps: 1, inFlight: 16, batch: 1},
		{name: "submit only, batches of 500", steps: 1, inFlight: 4, batch: 500},
	}
}

// plan10 returns a plan of n calls, one after the other.
func planOf(n int) (json.RawMessage, error) {
	var b strings.Builder
	b.WriteString("orch: v1\nname: bench\nsteps:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {id: s%d, tool: BENCH_NOOP", i)
		if i > 0 {
			fmt.Fprintf(&b, ", needs: [s%d]", i-1)
		}
		b.WriteString("}\n")
	}
	p, err := plan.Parse("bench", []byte(b.String()), plan.Options{})
	if err != nil {
		return nil, err
	}
	return p.JSON(), nil
}

// drive keeps w.inFlight tasks going for a time and returns how many ended per second, and the times
// they took.
func drive(ctx context.Context, api orchestrator.API, w workload, length time.Duration) (float64, []time.Duration, error) {
	text, err := planOf(w.steps)
	if err != nil {
		return 0, nil, err
	}
	ctx, stop := context.WithTimeout(ctx, length+time.Minute)
	defer stop()
	var group sync.WaitGroup
	var count atomic.Int64
	var failure atomic.Pointer[error]
	times := make([][]time.Duration, w.inFlight)
	began := time.Now()
	end := began.Add(length)
	for i := range w.inFlight {
		group.Go(func() {
			for time.Now().Before(end) && failure.Load() == nil {
				at := time.Now()
				n, err := once(ctx, api, w, text)
				if err != nil {
					failure.CompareAndSwap(nil, &err)
					return
				}
				times[i] = append(times[i], time.Since(at))
				count.Add(int64(n))
			}
		})
	}
	group.Wait()
	if err := failure.Load(); err != nil {
		return 0, nil, *err
	}
	return float64(count.Load()) / time.Since(began).Seconds(), slices.Concat(times...), nil
}

// once does one unit of a workload and returns the number of tasks in it.
func once(ctx context.Context, api orchestrator.API, w workload, text json.RawMessage) (int, error) {
	if w.batch > 1 {
		r := orchestrator.SubmitBatchRequest{Tasks: make([]orchestrator.SubmitRequest, w.batch)}
		for i := range r.Tasks {
			r.Tasks[i].Plan = text
		}
		_, err := api.SubmitBatch(ctx, r)
		return w.batch, err
	}
	reply, err := api.Submit(ctx, orchestrator.SubmitRequest{Plan: text})
	if err != nil || w.batch == 1 {
		return 1, err
	}
	for {
		result, err := api.Result(ctx, orchestrator.ResultRequest{ID: reply.ID, Wait: 30 * time.Second})
		if err != nil {
			return 0, err
		}
		if result.Over {
			return 1, checkDone(result)
		}
	}
}

func checkDone(r orchestrator.ResultReply) error {
	if r.Error != nil {
		return r.Error
	}
	if r.State != "DONE" {
		return fault.New(fault.Internal, "a benchmark task ended %s", r.State)
	}
	return nil
}

func row(w workload, layout, durability string, rate float64, times []time.Duration) Row {
	slices.Sort(times)
	r := Row{Name: layout + ": " + w.name, Durability: durability, Unit: "tasks/s", Value: rate}
	if len(times) > 0 {
		r.P50Millis = millis(times[len(times)/2])
		r.P99Millis = millis(times[len(times)*99/100])
	}
	return r
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// fresh returns a new data directory below cfg.Dir.
func (c Config) fresh(name string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(c.Dir, "orch-bench-"+name+"-*")
	if err != nil {
		return "", nil, fault.Wrap(fault.ExecFailed, err, "a directory for the benchmark cannot be made")
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

func (c Config) wants(name string) bool { return strings.Contains(name, c.Only) }

// embedded measures a node with everything in one process.
func embedded(ctx context.Context, cfg Config, durability string) ([]Row, error) {
	return measure(ctx, cfg, "embedded", durability, func(dir string) (orchestrator.API, func(), error) {
		n, err := node.Start(ctx, node.Config{
			DataDir: filepath.Join(dir, "data"), Root: dir, Durability: durability, Concurrency: 256, Extra: []tools.Tool{Tool()},
		})
		if err != nil {
			return nil, nil, err
		}
		return n.API(), func() { _ = n.Stop(context.WithoutCancel(ctx)) }, nil
	}, bareEmbedded)
}

// measure runs the workloads of one layout, each on a fresh node, beside the bare pattern.
func measure(ctx context.Context, cfg Config, layout, durability string, start func(dir string) (orchestrator.API, func(), error), bare func(context.Context, Config, string, int) (float64, error)) ([]Row, error) {
	var rows []Row
	for _, w := range workloads() {
		if !cfg.wants(layout + ": " + w.name) {
			continue
		}
		_, _ = fmt.Fprintf(cfg.Progress, "%s, %s: %s\n", layout, durability, w.name) // nobody may read the progress
		r, err := measureOne(ctx, cfg, layout, durability, w, start)
		if err != nil {
			return rows, err
		}
		if w.batch == 0 && w.inFlight > 1 && w.steps == 1 {
			if r.Bare, err = bare(ctx, cfg, durability, w.inFlight); err != nil {
				return rows, err
			}
			r.Ratio = r.Value / r.Bare
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func measureOne(ctx context.Context, cfg Config, layout, durability string, w workload, start func(dir string) (orchestrator.API, func(), error)) (Row, error) {
	dir, remove, err := cfg.fresh("node")
	if err != nil {
		return Row{}, err
	}
	defer remove()
	api, stop, err := start(dir)
	if err != nil {
		return Row{}, err
	}
	defer stop()
	if _, _, err := drive(ctx, api, workload{steps: w.steps, inFlight: min(w.inFlight, 64)}, 300*time.Millisecond); err != nil {
		return Row{}, err // warming up
	}
	rate, times, err := drive(ctx, api, w, cfg.For)
	return row(w, layout, durability, rate, times), err
}
