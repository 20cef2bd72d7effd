package metrics_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/metrics"
	"github.com/orch-dev/orch/internal/histogram"
	"github.com/orch-dev/orch/stats"
)

// sample matches a line with a value: the series, and the value.
var sample = regexp.MustCompile(`^([a-z_]+(?:\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+\})?) (-?[0-9.e+-]+)$`)

// parse returns the values of an exposition by series, and checks its form.
func parse(t *testing.T, text []byte) map[string]float64 {
	t.Helper()
	all, family, families := map[string]float64{}, "", map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if help, ok := strings.CutPrefix(line, "# HELP "); ok {
			family, _, _ = strings.Cut(help, " ")
			require.False(t, families[family], "%s has one block", family)
			families[family] = true
			continue
		}
		if strings.HasPrefix(line, "# TYPE "+family+" ") {
			continue
		}
		found := sample.FindStringSubmatch(line)
		require.NotNil(t, found, line)
		require.True(t, strings.HasPrefix(found[1], family), line)
		require.NotContains(t, all, found[1])
		value, err := strconv.ParseFloat(found[2], 64)
		require.NoError(t, err)
		all[found[1]] = value
	}
	return all
}

// export returns the values that an exporter writes for a node.
func export(t *testing.T, e *metrics.Exporter, n *metrics.Node) map[string]float64 {
	t.Helper()
	text, series := e.Text(&metrics.Snapshot{Version: "v", At: at, Node: n, Process: metrics.ReadProcess(at)})
	all := parse(t, text)
	require.Len(t, all, series)
	return all
}

var at = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// full returns a node with as many values of labels as there are tools, queues, servers, providers and budgets, or more than it reports.
func full(tools int) *metrics.Node {
	h := histogram.New()
	h.Observe(3 * time.Millisecond)
	n := &metrics.Node{
		Unready: "DISK_FULL", Tasks: map[string]int{"pending": 7}, Queues: map[string]metrics.Queue{}, Tools: map[string]*stats.Counter{},
		Providers: map[string]int{}, Servers: map[string]string{}, Approvals: 1, OldestApproval: at.Add(-time.Minute),
		Hooks: metrics.Hooks{Waiting: new(7)}, Traces: &metrics.Traces{},
		Store:   &metrics.Store{Live: 1, Archive: 1, Used: 1, MaxStore: 1, Free: 1, MinFree: 1, Last: 42},
		Commits: metrics.Commits{Took: h.Counts(), Synced: h.Counts()},
	}
	for i := range tools {
		name := fmt.Sprintf("tool%05d", i)
		n.Queues[name] = metrics.Queue{Calls: 1, Since: at.Add(-time.Duration(i) * time.Second)}
		n.Providers[name], n.Servers[name] = i, metrics.ServerReady
		n.Tools[name] = counter(uint64(i))
	}
	for i := range metrics.MaxBudgets {
		n.Budgets = append(n.Budgets, metrics.Budget{Name: strconv.Itoa(i), Limit: 1, TokensAllowed: 1})
	}
	return n
}

// counter returns the counter of a tool whose calls have ended in all ways.
func counter(n uint64) *stats.Counter {
	c := &stats.Counter{Count: 6 * (n + 1), Successes: n + 1, Took: time.Second, Errors: map[fault.Code]uint64{}}
	for _, code := range []fault.Code{fault.Timeout, fault.WorkerLost, fault.Cancelled, fault.Forbidden, fault.ExecFailed} {
		c.Errors[code] = n + 1
	}
	return c
}

// Whatever there is on a node, its series are fewer than the limit. What has none of its own is counted in others.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	const many = 10_000
	all := export(t, &metrics.Exporter{}, full(many))
	assert.LessOrEqual(t, len(all), metrics.MaxSeries)
	assert.Greater(t, len(all), metrics.MaxTools*7)
	calls := 0.0
	for series, value := range all {
		if strings.HasPrefix(series, "orch_queue_calls{") {
			calls += value
		}
	}
	assert.InDelta(t, many, calls, 0)
	assert.InDelta(t, many-metrics.MaxQueues, all[`orch_queue_calls{queue="other"}`], 0)
	assert.InDelta(t, many-1, all[`orch_queue_wait_seconds{queue="other"}`], 0)
	assert.InDelta(t, many, all[`orch_mcp_servers{state="ready"}`], 0, "all are counted")
	assert.Contains(t, all, fmt.Sprintf(`orch_calls_total{tool="tool%05d",outcome="denied"}`, many-1), "the most used tools have series of their own")
}

// The series of a tool never change their meaning, and no counter goes down, whatever tools come and are forgotten.
func TestCountersOnlyGrow(t *testing.T) {
	t.Parallel()
	e := &metrics.Exporter{}
	n := full(metrics.MaxTools + 10)
	before := export(t, e, n)
	assert.InDelta(t, 0, before[`orch_calls_total{tool="other",outcome="succeeded"}`], 0, "from the first text on")
	for _, name := range []string{"tool00000", "tool00054"} { // one among the others, and one with series of its own
		n.Tools[name].Successes += 5
	}
	n.Tools["new"] = counter(999_999)
	delete(n.Tools, "tool00001") // forgotten for the new one
	after := export(t, e, n)
	assert.InDelta(t, 5+1_000_000, after[`orch_calls_total{tool="other",outcome="succeeded"}`], 0)
	assert.InDelta(t, before[`orch_calls_total{tool="tool00054",outcome="succeeded"}`]+5, after[`orch_calls_total{tool="tool00054",outcome="succeeded"}`], 0)
	n.Tools["tool00001"] = counter(0) // it is used again
	delete(n.Tools, "tool00000")
	last := export(t, e, n)
	assert.InDelta(t, 5+1_000_000+1, last[`orch_calls_total{tool="other",outcome="succeeded"}`], 0)
	for series, value := range after {
		if strings.Contains(series, "_total") && strings.HasPrefix(series, "orch_") {
			assert.GreaterOrEqual(t, last[series], value, series)
		}
	}
}

// A worker has its figures, and nothing of a node.
func TestWorkerText(t *testing.T) {
	t.Parallel()
	h := histogram.Of(time.Second)
	h.Observe(2 * time.Second)
	w := &metrics.Worker{Slots: 5, Running: 2, Ended: map[string]uint64{"succeeded": 3, "timeout": 1}, Took: h.Counts(), ReportFailures: 4, Reconnects: 6, Connected: true}
	all := parse(t, metrics.WorkerText(&metrics.Snapshot{Version: "v", At: at, Worker: w, Process: metrics.ReadProcess(at)}))
	for series, want := range map[string]float64{
		"orch_worker_slots": 5, "orch_worker_calls_running": 2, `orch_worker_calls_total{class="succeeded"}`: 3, `orch_worker_calls_total{class="timeout"}`: 1,
		`orch_worker_call_seconds_bucket{le="1"}`: 0, "orch_worker_call_seconds_count": 1, "orch_worker_report_failures_total": 4,
		"orch_worker_reconnects_total": 6, "orch_worker_connected": 1,
	} {
		assert.InDelta(t, want, all[series], 0, series)
	}
	assert.Positive(t, all["process_resident_memory_bytes"])
	assert.NotContains(t, all, "orch_active")
}

// Each code of the range of authority means that a call was denied.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, entry := range fault.Registry() {
		n := full(0)
		n.Tools["a"] = &stats.Counter{Count: 1, Errors: map[fault.Code]uint64{entry.Code: 1}}
		_, denied := export(t, &metrics.Exporter{}, n)[`orch_calls_total{tool="a",outcome="denied"}`]
		assert.Equal(t, entry.RPC <= -32100 && entry.RPC > -32200, denied, entry.Code)
	}
}

func TestLeasesLost(t *testing.T) {
	t.Parallel()
	e := &metrics.Exporter{}
	n := full(3)
	assert.InDelta(t, 1+2+3, export(t, e, n)["orch_leases_lost_total"], 0)
	n.Tools["tool00001"].Errors[fault.WorkerLost] += 4
	delete(n.Tools, "tool00002")
	assert.InDelta(t, 10, export(t, e, n)["orch_leases_lost_total"], 0)
}

func TestValues(t *testing.T) {
	t.Parallel()
	n := full(1)
	n.Tools = map[string]*stats.Counter{"a\"b\\c\nd\xff": {Count: 1, Successes: 1, Took: 1500 * time.Millisecond}}
	n.Servers = map[string]string{"up": metrics.ServerReady, "down": metrics.ServerOffline, "off": metrics.ServerOff}
	all := export(t, &metrics.Exporter{}, n)
	for series, want := range map[string]float64{
		`orch_call_seconds_total{tool="a\"b\\c\nd�"}`: 1.5, `orch_refusing{reason="DISK_FULL"}`: 1, `orch_ready`: 0, `orch_active`: 1,
		`orch_tasks{status="pending"}`: 7, `orch_tasks{status="blocked"}`: 0, `orch_approval_oldest_age_seconds`: 60, `orch_task_oldest_age_seconds`: 0,
		`orch_mcp_server_up{server="up"}`: 1, `orch_mcp_server_up{server="down"}`: 0, `orch_commits_total`: 42,
		`orch_sync_seconds_bucket{le="0.0025"}`: 0, `orch_sync_seconds_bucket{le="0.005"}`: 1, `orch_sync_seconds_count`: 1, `orch_sync_seconds_sum`: 0.003,
	} {
		require.Contains(t, all, series)
		assert.InDelta(t, want, all[series], 1e-9, series)
	}
	assert.NotContains(t, all, `orch_mcp_server_up{server="off"}`)
}

// A process that stands by has its own figures alone.
func TestStandby(t *testing.T) {
	t.Parallel()
	text, _ := (&metrics.Exporter{}).Text(&metrics.Snapshot{Version: "1.2.3", At: at, Process: metrics.ReadProcess(at)})
	all := parse(t, text)
	assert.InDelta(t, 0, all["orch_active"], 0)
	assert.NotContains(t, all, "orch_ready")
	for _, series := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds", "process_start_time_seconds", "go_goroutines", "go_memstats_heap_alloc_bytes"} {
		assert.Positive(t, all[series], series)
	}
}

// The names follow the conventions of Prometheus.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, g := range metrics.Groups() {
		for _, f := range g.Families {
			assert.Regexp(t, `^(orch|process|go)_[a-z_]+[a-z]$`, f.Name)
			assert.Equal(t, f.Type == metrics.Counter, strings.HasSuffix(f.Name, "_total"), f.Name)
			assert.NotRegexp(t, `_(ms|milliseconds|mib|kb|count|sum|bucket)$`, f.Name)
			assert.Regexp(t, `\.$`, f.Help, f.Name)
		}
	}
}

func BenchmarkText(b *testing.B) {
	e, n := &metrics.Exporter{}, full(500)
	for b.Loop() {
		e.Text(&metrics.Snapshot{At: at, Node: n, Process: metrics.ReadProcess(at)})
	}
}
