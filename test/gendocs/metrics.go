package main

import (
	"fmt"
	"strings"

	"github.com/orch-dev/orch/httpapi/metrics"
)

// metricsPage returns the page of the metrics.
func metricsPage() string {
	d := &document{}
	d.line("# Metrics")
	d.line("")
	d.line("This page is for operators. It lists the metrics that a node has for Prometheus at `GET /metrics`. It is generated from the table")
	d.line("`metrics.Groups`. [Monitor a node](../how-to/monitor-a-node.md) shows how to scrape, alert and draw them.")
	d.line("")
	d.line("- The figures are read when somebody asks: those of `orch doctor`, `GET /status` and `orch costs`. Only the two histograms")
	d.line("  are counted for this page alone.")
	d.line("- A node has at most %d series, whatever its tools, queues and servers. Tasks, identities, workers and agents are no labels.", metrics.MaxSeries)
	d.line("- A counter goes on after a restart where its number is in the log; the others begin anew, as the table says.")
	d.line("- A tool that 500 others have displaced from the statistics between two scrapes is not in `other`.")
	d.line("- A process of a cluster that stands by has the metrics that are marked with `*` alone.")
	for _, g := range metrics.Groups() {
		d.line("")
		d.line("## %s", g.Title)
		d.metrics(g.Families)
	}
	workers := metrics.WorkerGroups()[0]
	d.line("")
	d.line("## %s", workers.Title)
	d.line("")
	d.line("A process of `orch worker --metrics ADDRESS` has these metrics, and those of the process above. It listens at loopback, and needs no token.")
	d.metrics(workers.Families)
	return strings.TrimRight(strings.ReplaceAll(d.String(), "\n\n\n", "\n\n"), "\n") + "\n"
}

// metrics writes a table of metrics.
func (d *document) metrics(families []metrics.Family) {
	var rows [][]string
	for _, f := range families {
		name := "`" + f.Name + "`"
		if f.Standby {
			name += " `*`"
		}
		rows = append(rows, []string{name, string(f.Type), strings.ReplaceAll(f.Help, "|", `\|`), labelsOf(f)})
	}
	d.table([]string{"metric", "type", "meaning", "labels"}, rows)
}

func labelsOf(f metrics.Family) string {
	var all []string
	for _, l := range f.Labels {
		all = append(all, fmt.Sprintf("`%s`: %s", l.Name, l.Values))
	}
	return strings.Join(all, "; ")
}
