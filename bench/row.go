package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Row is one figure: the median of several runs.
type Row struct {
	// ID is the stable id of the row. Config.Rows selects rows by id.
	ID string `json:"id"`
	// Name describes the measurement, with the numbers of this run.
	Name       string  `json:"name"`
	Durability string  `json:"durability"`
	Unit       string  `json:"unit"`
	Value      float64 `json:"value"`
	// Runs are the figures of the single runs. Value is their median.
	Runs []float64 `json:"runs"`
	// P50Millis and P99Millis are latencies of single requests.
	P50Millis float64 `json:"p50_ms,omitempty"`
	P99Millis float64 `json:"p99_ms,omitempty"`
	// Bare is the same figure for the baseline, in the same layout and run. The baseline is the bare message pattern (see the
	// package comment), or an SDK server for the rows about MCP, or calls for lists of tools, or a refused request for reads, or
	// another variant of the node for the rows about starts. Ratio compares orch with Bare; a larger ratio is better for orch.
	Bare  float64 `json:"bare,omitempty"`
	Ratio float64 `json:"ratio,omitempty"`
	// CPUMicros is the CPU time per task, by process. BareCPUMicros is the same for the baseline.
	CPUMicros     map[string]float64 `json:"cpu_us_per_task,omitempty"`
	BareCPUMicros map[string]float64 `json:"bare_cpu_us_per_task,omitempty"`
	// Goal is the target. Mark is "ok" or "missed", or "" without a goal.
	Goal *Goal  `json:"goal,omitempty"`
	Mark string `json:"mark,omitempty"`
}

// Goal is a target for a figure.
type Goal struct {
	// Least is the lower bound, Most the upper bound; a goal has only one of them, the other is 0.
	Least float64 `json:"least,omitempty"`
	Most  float64 `json:"most,omitempty"`
	// Ratio is the minimum of Row.Ratio.
	Ratio float64 `json:"ratio,omitempty"`
}

// goals returns the targets by row id: the first for durability fsync, the second for relaxed.
func goals() map[string][2]Goal {
	sameGoal := func(g Goal) [2]Goal { return [2]Goal{g, g} }
	return map[string][2]Goal{
		"1-step":              {{Least: 8_000}, {Least: 12_000}},
		"10-step":             {{Least: 2_500}, {Least: 4_000}},
		"latency-p50":         {{Most: 1.2}, {Most: 0.6}},
		"latency-p99":         {{Most: 5}, {Most: 3}},
		"submit":              {{Least: 12_000}, {Least: 25_000}},
		"batch":               {{Least: 40_000}, {Least: 60_000}},
		"embedded-1-step":     {{Least: 20_000}, {Least: 25_000, Ratio: 0.5}},
		"mcp-call-stateful":   sameGoal(Goal{Least: 1_500, Ratio: 0.75}),
		"mcp-call-stateless":  sameGoal(Goal{Least: 800, Ratio: 0.75}),
		"mcp-list-stateful":   sameGoal(Goal{Ratio: 0.5}),
		"mcp-list-stateless":  sameGoal(Goal{Ratio: 0.5}),
		"gate-noop":           sameGoal(Goal{Most: 25}),
		"gate-read":           sameGoal(Goal{Most: 25}),
		"gateway-stdio":       sameGoal(Goal{Most: 1.3}),
		"gateway-http":        sameGoal(Goal{Most: 1.3}),
		"cold-start-new":      sameGoal(Goal{Most: 100}),
		"cold-start-existing": sameGoal(Goal{Most: 100}),
		"rss-idle":            sameGoal(Goal{Most: 45}),
		"rss-after":           sameGoal(Goal{Most: 150}),
		"disk":                sameGoal(Goal{Most: 1.2}),
		"sleepers":            sameGoal(Goal{Most: 1.2}),
		"agents-cpu":          sameGoal(Goal{Most: 2}),
		"agents-rss":          sameGoal(Goal{Most: 60}),
		"reads-list":          sameGoal(Goal{Most: 5}),
		"reads-filter":        sameGoal(Goal{Most: 5}),
		"reads-find":          sameGoal(Goal{Most: 5}),
		"reads-last":          sameGoal(Goal{Most: 5}),
		"reads-queue":         sameGoal(Goal{Most: 5}),
		"reads-counts":        sameGoal(Goal{Most: 5}),
		"replay-1k-alone":     sameGoal(Goal{Most: 10}),
		"replay-100k-alone":   sameGoal(Goal{Most: 600}),
		"replay-1k-among":     sameGoal(Goal{Most: 80}),
		"replay-100k-among":   sameGoal(Goal{Most: 1_000}),
		"ui-streams":          sameGoal(Goal{Most: 5}),
		"http-rss":            sameGoal(Goal{Most: 3}),
		"http-start":          sameGoal(Goal{Ratio: 0.95}),
		"before-rss":          sameGoal(Goal{Most: 3}),
		"before-start":        sameGoal(Goal{Ratio: 0.95}),
		"restart-clean":       sameGoal(Goal{Most: 1}),
		"restart-kill":        sameGoal(Goal{Most: 5}),
	}
}

// WithGoal lists the ids of the rows with a goal.
func WithGoal() []string { return slices.Sorted(maps.Keys(goals())) }

// Judged returns the row with Goal and Mark set.
func (r Row) Judged() Row {
	pair, ok := goals()[r.ID]
	if !ok {
		return r
	}
	goal := pair[0]
	if r.Durability == "relaxed" {
		goal = pair[1]
	}
	r.Goal, r.Mark = &goal, "ok"
	if r.Value < goal.Least || (goal.Most > 0 && r.Value > goal.Most) || r.Ratio < goal.Ratio {
		r.Mark = "missed"
	}
	return r
}

// String formats the goal.
func (g *Goal) String() string {
	switch {
	case g == nil:
		return "-"
	case g.Most > 0:
		return "≤ " + number(g.Most)
	case g.Least == 0:
		return "ratio ≥ " + number(g.Ratio)
	case g.Ratio > 0:
		return "≥ " + number(g.Least) + ", ratio ≥ " + number(g.Ratio)
	default:
		return "≥ " + number(g.Least)
	}
}

// Print writes a report as a table.
func Print(w io.Writer, r Report) error {
	_, err := fmt.Fprintf(w, "orch %s, commit %s, %s %s, %d CPUs, %s\nmedians of %d runs; rates over %gs; large rows at scale %g\n\n",
		cmp.Or(r.Version, "unknown"), cmp.Or(r.Commit, "unknown"), r.Go, r.Platform, r.CPUs, r.At.Format(time.RFC3339), r.Runs, r.Seconds, r.Scale)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "id\trow\tdurability\tvalue\tunit\tto reach\t\tp50 ms\tp99 ms\tbare\tratio\tCPU µs/task\tbare CPU")
	for _, r := range r.Rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Name, r.Durability, number(r.Value), r.Unit,
			r.Goal, r.Mark, number(r.P50Millis), number(r.P99Millis), number(r.Bare), number(r.Ratio), cpuBreakdown(r.CPUMicros), cpuBreakdown(r.BareCPUMicros))
	}
	return tw.Flush()
}

// number formats a figure with at least three digits.
func number(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// cpuBreakdown formats the sum of CPU times, followed by the time of each process.
func cpuBreakdown(cpu map[string]float64) string {
	if len(cpu) == 0 {
		return "-"
	}
	sum := 0.0
	var parts []string
	for _, role := range []string{"server", "worker", "driver"} {
		if v, ok := cpu[role]; ok {
			sum += v
			parts = append(parts, number(v))
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return number(sum) + " = " + strings.Join(parts, " + ")
}

// figure returns a row for the figures of several runs.
func figure(id, name, unit string, runs []float64) Row {
	return Row{ID: id, Name: name, Unit: unit, Value: median(runs), Runs: runs}
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
