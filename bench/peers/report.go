package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

// row is one figure. It has the JSON format of a row in the report of `orch bench`.
type row struct {
	System string  `json:"system"`
	ID     string  `json:"id"`
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
	// Runs are the figures of the single runs. Value is their median.
	Runs []float64 `json:"runs"`
	// CPUMicros is the CPU time per job, by process.
	CPUMicros map[string]float64 `json:"cpu_us_per_task,omitempty"`
}

// figureIDs lists the figures in the order of the table; they are rows of `orch bench`.
func figureIDs() []string {
	return []string{"submit", "batch", "1-step", "10-step", "latency-p50", "latency-p99", "sleepers", "cold-start-existing", "rss-idle", "rss-after", "rss-worker"}
}

// printTable writes a line for every system, followed by the CPU times.
func printTable(w io.Writer, rows []row) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "system (durability)\tsubmit/s, 16 clients\tbatches of 500, tasks/s\t1-step tasks/s\t10-step/s\tlatency p50 ms\tp99 ms\t1,000 × 1 s sleep, s\tcold start ms\tMiB idle\tafter 100,000 tasks\tworker\tCPU µs per 1-step task (server + worker + driver)\tper 10-step")
	var systems []string
	for _, r := range rows {
		if !slices.Contains(systems, r.System) {
			systems = append(systems, r.System)
		}
	}
	for _, system := range systems {
		fmt.Fprint(tw, system)
		for _, id := range figureIDs() {
			fmt.Fprint(tw, "\t", number(findRow(rows, system, id).Value))
		}
		fmt.Fprintln(tw, "\t"+cpuBreakdown(findRow(rows, system, "1-step").CPUMicros)+"\t"+cpuBreakdown(findRow(rows, system, "10-step").CPUMicros))
	}
	return tw.Flush()
}

func findRow(rows []row, system, id string) row {
	i := slices.IndexFunc(rows, func(r row) bool { return r.System == system && r.ID == id })
	if i < 0 {
		return row{}
	}
	return rows[i]
}

func number(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

func cpuBreakdown(cpu map[string]float64) string {
	if len(cpu) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f = %.0f + %.0f + %.0f", cpu["server"]+cpu["worker"]+cpu["driver"], cpu["server"], cpu["worker"], cpu["driver"])
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
