package node_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/metrics"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools"
)

// scrape returns the metrics of a node, by series.
func scrape(t *testing.T, site, token string) map[string]float64 {
	t.Helper()
	status, body := fetch(t, site+"/metrics", token)
	require.Equal(t, http.StatusOK, status, body)
	return parseMetrics(t, body)
}

// parseMetrics returns the values of an exposition, by series.
func parseMetrics(t *testing.T, body string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(body) {
		at := strings.LastIndex(line, " ")
		if strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		require.NoError(t, err, line)
		all[line[:at]] = value
	}
	return all
}

// Operators and viewers read the metrics, also with a token that may do nothing else.
func TestWhoReadsMetrics(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	narrow := []string{"system.getSystemStatus"}
	for role, want := range map[string]int{bus.RoleOperator: 200, bus.RoleViewer: 200, bus.RoleSubmitter: 403, bus.RoleAgent: 403} {
		token := e.issue(bus.NewToken{Name: "t" + role, Role: role})
		status, body, h := e.request(http.MethodGet, "/metrics", token, "")
		assert.Equal(t, want, status, "%s: %s", role, body)
		if want == http.StatusOK {
			assert.Equal(t, metrics.ContentType, h.Get("Content-Type"))
			assert.Contains(t, body, "# TYPE orch_commits_total counter\n")
		}
	}
	scraper := e.issue(bus.NewToken{Name: "prometheus", Role: bus.RoleViewer, Tools: narrow})
	status, body, _ := e.request(http.MethodGet, "/metrics", scraper, "")
	assert.Equal(t, http.StatusOK, status, body)
	for _, path := range []string{"/tasks", "/queue", "/policy"} {
		status, _, _ = e.request(http.MethodGet, "/api/v1"+path, scraper, "")
		assert.Equal(t, http.StatusForbidden, status, path)
	}
	other := e.issue(bus.NewToken{Name: "other", Role: bus.RoleViewer, Tools: []string{"orch_list"}})
	for token, want := range map[string]int{other: 403, "": 401, "orch_zzz": 401} {
		status, body, _ = e.request(http.MethodGet, "/metrics", token, "")
		assert.Equal(t, want, status, body)
	}
	status, body, _ = e.request(http.MethodHead, "/metrics", e.token, "")
	assert.Equal(t, http.StatusOK, status)
	assert.Empty(t, body)
	status, _, _ = e.request(http.MethodPost, "/metrics", e.token, "")
	assert.Equal(t, http.StatusMethodNotAllowed, status)
}

// The metrics tell what has happened on the node, and what waits.
func TestMetricsOfANode(t *testing.T) {
	t.Parallel()
	e := serveRPC(t, func(c *node.Config) { c.Storage.Durability = "fsync" })
	before := scrape(t, e.site(""), e.token)
	run(t, e.API(), "orch: v1\nsteps: [{id: say, tool: LOG_WRITE, with: {level: INFO, message: hi}}]\n")
	r := run(t, e.API(), "orch: v1\nsteps: [{id: say, tool: FILE_READ, with: {file_path: /etc/shadow}}]\n")
	require.NotNil(t, r.Error)
	require.Equal(t, fault.OutsideRoot, r.Error.Code)
	for _, plan := range []string{`{id: ok, approve: {description: "Ship it?"}}`, `{id: who, tool: QUESTION_ASK, with: {question: "Who?"}}`} {
		submit(t, e.API(), "orch: v1\nsteps: ["+plan+"]\n")
	}
	var after map[string]float64
	require.Eventually(t, func() bool {
		after = scrape(t, e.site(""), e.token)
		return after["orch_approvals_waiting"] == 1 && after["orch_questions_waiting"] == 1
	}, time.Minute, 10*time.Millisecond)
	for series, want := range map[string]float64{
		`orch_build_info{version="test",go_version="` + runtime.Version() + `"}`: 1, `orch_active`: 1, `orch_ready`: 1, `orch_paused`: 0,
		`orch_calls_total{tool="LOG_WRITE",outcome="succeeded"}`: 1, `orch_calls_total{tool="LOG_WRITE",outcome="failed"}`: 0,
		`orch_calls_total{tool="FILE_READ",outcome="denied"}`: 1, `orch_leases_lost_total`: 0, `orch_commits_failed_total`: 0,
		`orch_workers{state="online"}`: 1, `orch_tasks_finished`: 2, `orch_mcp_servers{state="ready"}`: 0,
	} {
		require.Contains(t, after, series)
		assert.InDelta(t, want, after[series], 0, series)
	}
	for _, series := range []string{
		"orch_log_bytes", "orch_store_bytes", "orch_disk_free_bytes", "orch_sync_seconds_count", "orch_approval_oldest_age_seconds", "orch_task_oldest_age_seconds",
		"process_resident_memory_bytes", "orch_scrape_seconds",
	} {
		assert.Positive(t, after[series], series)
	}
	assert.GreaterOrEqual(t, after["orch_commits_total"]-before["orch_commits_total"], 6.0)
	assert.GreaterOrEqual(t, after["orch_commit_seconds_count"], 6.0)
}

// What waits for people is counted after a restart too, although nobody has read these tasks since.
func TestMetricsAfterARestart(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP, cfg.User = "127.0.0.1:0", "ada"
	n := start(t, cfg)
	run(t, n.API(), "orch: v1\nsteps: [{id: say, tool: LOG_WRITE, with: {level: INFO, message: hi}}]\n")
	submit(t, n.API(), `{"orch": "v1", "steps": [{"id": "ok", "approve": {"description": "Ship it?"}}]}`)
	token, err := os.ReadFile(filepath.Join(cfg.DataDir, bus.LocalTokenFile))
	require.NoError(t, err)
	read := func() map[string]float64 { return scrape(t, siteOf(n), strings.TrimSpace(string(token))) }
	require.Eventually(t, func() bool { return read()["orch_approvals_waiting"] == 1 }, time.Minute, 10*time.Millisecond)
	before := read()
	require.NoError(t, n.Stop(t.Context()))
	n = start(t, cfg)
	after := read()
	assert.InDelta(t, 1, after["orch_approvals_waiting"], 0)
	assert.Positive(t, after["orch_approval_oldest_age_seconds"])
	const calls = `orch_calls_total{tool="LOG_WRITE",outcome="succeeded"}`
	assert.InDelta(t, 1, after[calls], 0, "a counter of the log goes on")
	assert.GreaterOrEqual(t, after["orch_commits_total"], before["orch_commits_total"])
}

// A node that refuses to append still tells its metrics, and why.
func TestMetricsOfADamagedLog(t *testing.T) {
	t.Parallel()
	dir := ""
	e := serveRPC(t, func(c *node.Config) { dir = c.DataDir })
	harm(t, dir, e.Node)
	all := scrape(t, e.site(""), e.token)
	assert.InDelta(t, 0, all["orch_ready"], 0)
	assert.InDelta(t, 1, all[`orch_refusing{reason="DATA_LOSS"}`], 0)
}

// A node on which 50 tools were used has fewer series than the limit.
func TestSeriesOfANode(t *testing.T) {
	t.Parallel()
	const used = 50
	e := serveRPC(t, func(c *node.Config) {
		for i := range used {
			c.Extra = append(c.Extra, tools.Define(
				tools.Spec{Name: fmt.Sprintf("test.tool%d", i), Purpose: "test", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval, NoWorkspace: true},
				func(context.Context, *tools.Env, struct{}) (struct{}, error) { return struct{}{}, nil }))
		}
	})
	var steps []string
	for i := range used {
		steps = append(steps, fmt.Sprintf("{id: s%d, tool: test.tool%d}", i, i))
	}
	run(t, e.API(), "orch: v1\nsteps: ["+strings.Join(steps, ", ")+"]\n")
	all := scrape(t, e.site(""), e.token)
	assert.Contains(t, all, `orch_calls_total{tool="test.tool49",outcome="succeeded"}`)
	assert.LessOrEqual(t, len(all), metrics.MaxSeries)
	t.Logf("%d series, collected in %.2f ms", len(all), 1000*all["orch_scrape_seconds"])
}

// Each process of a cluster has metrics of its own. Those of the process that stands by need a token of the active node.
func TestMetricsOfAStandby(t *testing.T) {
	t.Parallel()
	nats := natsServer(t)
	first, second := serveMember(t, nats), serveMember(t, nats)
	secret, err := os.ReadFile(filepath.Join(first.cfg.DataDir, bus.LocalTokenFile))
	require.NoError(t, err)
	token := strings.TrimSpace(string(secret))
	assert.InDelta(t, 1, scrape(t, first.site(), token)["orch_active"], 0)
	standby := scrape(t, second.site(), token)
	assert.InDelta(t, 0, standby["orch_active"], 0)
	assert.Positive(t, standby["process_cpu_seconds_total"])
	assert.NotContains(t, standby, "orch_commits_total")
	for _, wrong := range []string{"", "orch_zzz"} {
		status, body := fetch(t, second.site()+"/metrics", wrong)
		assert.Equal(t, http.StatusUnauthorized, status, body)
	}
	first.shutDown()
	require.Eventually(t, func() bool {
		status, body := fetch(t, second.site()+"/metrics", token)
		return status == http.StatusOK && strings.Contains(body, "\norch_active 1\n")
	}, time.Minute, 10*time.Millisecond)
}
