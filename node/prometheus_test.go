package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/httpapi/metrics"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/test/need"
)

const (
	rulesFolder = "../deploy/prometheus"
	dashboard   = "../deploy/grafana/orch.json"
)

// promtool runs promtool in the folder of the rules.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	need.Program(t, "promtool")
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir, cmd.Stdin = rulesFolder, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.NotContains(t, string(out), "FAILED")
}

// The rules are valid, and their tests pass.
func TestPrometheusRules(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "rules", "orch.rules.yaml")
	promtool(t, "", "test", "rules", "orch.rules.test.yaml")
}

// promtool finds nothing wrong with the metrics of a node.
func TestMetricsSatisfyPromtool(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	_, body, _ := e.request(http.MethodGet, "/metrics", e.token, "")
	promtool(t, body, "check", "metrics")
}

// dashboardQueries returns the queries of the dashboard, with its variables replaced.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	data, err := os.ReadFile(dashboard)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &board))
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries = append(queries, variables.Replace(target.Expr))
		}
	}
	require.NotEmpty(t, queries)
	return queries
}

// metricName matches the names of metrics in queries.
var metricName = regexp.MustCompile(`\b(?:orch|process|go)_[a-z0-9_]+`)

// The dashboard and the rules name only metrics that there are, and the dashboard shows nearly all of them.
func TestQueriesNameMetrics(t *testing.T) {
	t.Parallel()
	shown, known := map[string]bool{}, map[string]bool{}
	for _, g := range append(metrics.Groups(), metrics.WorkerGroups()...) {
		for _, f := range g.Families {
			known[f.Name] = true
			if f.Type == metrics.Histogram {
				known[f.Name+"_bucket"] = true
			}
		}
	}
	for _, q := range dashboardQueries(t) {
		for _, name := range metricName.FindAllString(q, -1) {
			assert.True(t, known[name], "%s in %s", name, q)
			shown[strings.TrimSuffix(name, "_bucket")] = true
		}
	}
	rules, err := os.ReadFile(filepath.Join(rulesFolder, "orch.rules.yaml"))
	require.NoError(t, err)
	recorded := regexp.MustCompile(`\w+:orch_\w+:\w+`).ReplaceAllString(string(rules), "")
	for _, name := range metricName.FindAllString(recorded, -1) {
		assert.True(t, known[name], "%s in the rules", name)
	}
	hidden := map[string]bool{}
	for _, g := range append(metrics.Groups(), metrics.WorkerGroups()...) {
		for _, f := range g.Families {
			if !shown[f.Name] {
				hidden[f.Name] = true
			}
		}
	}
	assert.Equal(t, map[string]bool{
		"orch_refusing": true, "orch_paused": true, "orch_scrape_seconds": true, "orch_tasks_finished": true, "process_max_fds": true,
		"process_start_time_seconds": true, "go_memstats_sys_bytes": true, "go_gc_cycles_total": true,
	}, hidden)
}

// prometheus is a server of Prometheus.
type prometheus struct {
	t    *testing.T
	site string
}

// startPrometheus starts Debian's Prometheus, which scrapes a node every second with a token of the role viewer.
func startPrometheus(t *testing.T, e *endpoint) *prometheus {
	t.Helper()
	need.Program(t, "prometheus")
	dir, address := t.TempDir(), freeAddress(t)
	token := e.issue(bus.NewToken{Name: "prometheus", Role: bus.RoleViewer, Tools: []string{"system.getSystemStatus"}})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o600))
	rules, err := filepath.Abs(filepath.Join(rulesFolder, "orch.rules.yaml"))
	require.NoError(t, err)
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs:
  - job_name: orch
    authorization: {credentials_file: token}
    static_configs: [{targets: [%q]}]
`, rules, strings.TrimPrefix(e.site(""), "http://"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Log(said.String())
		}
	})
	return &prometheus{t, "http://" + address}
}

// query returns the values of a query, or false if it was not answered.
func (p *prometheus) query(query string) (values []string, ok bool) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.site+"/api/v1/query?query="+url.QueryEscape(query), http.NoBody)
	require.NoError(p.t, err)
	r.Close = true
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, false // it is starting
	}
	defer func() { _ = answer.Body.Close() }()
	var reply struct {
		Status string
		Data   struct{ Result []struct{ Value [2]any } }
	}
	if json.NewDecoder(answer.Body).Decode(&reply) != nil || reply.Status != "success" {
		return nil, false
	}
	for _, sample := range reply.Data.Result {
		values = append(values, fmt.Sprint(sample.Value[1]))
	}
	return values, true
}

// await waits until a query has a result.
func (p *prometheus) await(query string) []string {
	p.t.Helper()
	var values []string
	require.Eventually(p.t, func() bool {
		values, _ = p.query(query)
		return len(values) > 0
	}, 2*time.Minute, 100*time.Millisecond, query)
	return values
}

// Prometheus scrapes a node with a token that may do nothing else, evaluates the rules, and answers every query of the dashboard.
func TestPrometheusScrapesANode(t *testing.T) {
	t.Parallel()
	need.Program(t, "prometheus")
	e := serveRPC(t, func(c *node.Config) { c.Storage.Durability = "fsync" })
	p := startPrometheus(t, e)
	work := func() {
		run(t, e.API(), "orch: v1\nsteps: [{id: say, tool: LOG_WRITE, with: {level: INFO, message: hi}}]\n")
	}
	work()
	assert.Equal(t, []string{"1"}, p.await(`up{job="orch"} == 1`))
	assert.Equal(t, []string{"1"}, p.await(`orch_calls_total{tool="LOG_WRITE",outcome="succeeded"} == 1`))
	work()
	assert.Equal(t, []string{"2"}, p.await(`orch_calls_total{tool="LOG_WRITE",outcome="succeeded"} == 2`))
	p.await(`instance:orch_commits:rate5m > 0`)
	p.await(`instance:orch_sync_seconds:p99_5m > 0`)
	exposed := scrape(t, e.site(""), e.token)
	for _, q := range dashboardQueries(t) {
		values, ok := p.query(q)
		require.True(t, ok, q)
		if allExposed(q, exposed) {
			assert.NotEmpty(t, values, q)
		}
	}
	firing, ok := p.query(`ALERTS{alertstate="firing"}`)
	require.True(t, ok)
	assert.Empty(t, firing, "a healthy node raises no alert")
}

// allExposed reports whether a node has all metrics of a query: some need budgets, servers or limits.
func allExposed(query string, exposed map[string]float64) bool {
	for _, name := range metricName.FindAllString(query, -1) {
		found := false
		for series := range exposed {
			own, _, _ := strings.Cut(series, "{")
			found = found || own == name
		}
		if !found {
			return false
		}
	}
	return true
}
