package node_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// ask asks a worker for something under a host name; "" is its address.
func askWorker(t *testing.T, address, path, host string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
	require.NoError(t, err)
	r.Host, r.Close = host, true
	got, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = got.Body.Close() }()
	data, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return got.StatusCode, string(data)
}

// A worker in a process of its own counts its calls, and promtool finds nothing wrong with its metrics.
func TestMetricsOfAWorker(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Worker.Metrics = freeAddress(t)
	server := cfg
	server.Worker.Concurrency = -1
	n := start(t, server)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.RunWorker(ctx, cfg) }()
	r := run(t, n.API(), "orch: v1\nsteps: [{id: say, tool: LOG_WRITE, with: {level: INFO, message: hi}}]\n")
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	r = run(t, n.API(), "orch: v1\nsteps: [{id: say, tool: FILE_READ, with: {file_path: /etc/shadow}}]\n")
	require.Equal(t, fault.OutsideRoot, r.Error.Code)
	submit(t, n.API(), `{"orch": "v1", "steps": [{"id": "ask", "tool": "QUESTION_ASK", "with": {"question": "Who?"}}]}`)
	var all map[string]float64
	require.Eventually(t, func() bool {
		all = scrapeWorker(t, cfg.Worker.Metrics)
		return all[`orch_worker_calls_total{class="continued"}`] == 1
	}, time.Minute, 10*time.Millisecond)
	for series, want := range map[string]float64{
		`orch_worker_calls_total{class="succeeded"}`: 1, `orch_worker_calls_total{class="denied"}`: 1, `orch_worker_calls_total{class="timeout"}`: 0,
		"orch_worker_call_seconds_count": 3, "orch_worker_connected": 1, "orch_worker_calls_running": 0, "orch_worker_report_failures_total": 0,
	} {
		require.Contains(t, all, series)
		assert.InDelta(t, want, all[series], 0, series)
	}
	assert.Positive(t, all["orch_worker_slots"])
	status, body := askWorker(t, cfg.Worker.Metrics, "/metrics", "")
	require.Equal(t, http.StatusOK, status)
	promtool(t, body, "check", "metrics")
	status, _ = askWorker(t, cfg.Worker.Metrics, "/metrics", "evil.example")
	assert.Equal(t, http.StatusMisdirectedRequest, status)
	status, _ = askWorker(t, cfg.Worker.Metrics, "/", "")
	assert.Equal(t, http.StatusNotFound, status)
	stop()
	require.NoError(t, <-ended)
	status, _ = askWorker(t, cfg.Worker.Metrics, "/metrics", "")
	assert.Zero(t, status, "it serves no longer")
	require.NoError(t, n.Stop(t.Context()))
}

// scrapeWorker returns the metrics of a worker, none if it does not answer.
func scrapeWorker(t *testing.T, address string) map[string]float64 {
	t.Helper()
	_, body := askWorker(t, address, "/metrics", "")
	return parseMetrics(t, body)
}

// A worker that has lost its node says so, and counts when it is back.
func TestMetricsOfAWorkerWithoutItsNode(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Worker.Metrics = freeAddress(t)
	server := cfg
	server.Worker.Concurrency = -1
	n := start(t, server)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.RunWorker(ctx, cfg) }()
	connected := func(want float64) func() bool {
		return func() bool {
			got, answers := scrapeWorker(t, cfg.Worker.Metrics)["orch_worker_connected"]
			return answers && got == want
		}
	}
	require.Eventually(t, connected(1), time.Minute, 10*time.Millisecond)
	require.NoError(t, n.Stop(t.Context()))
	require.Eventually(t, connected(0), time.Minute, 10*time.Millisecond)
	n = start(t, server)
	require.Eventually(t, connected(1), time.Minute, 10*time.Millisecond)
	assert.Positive(t, scrapeWorker(t, cfg.Worker.Metrics)["orch_worker_reconnects_total"])
	r := run(t, n.API(), "orch: v1\nsteps: [{id: say, tool: LOG_WRITE, with: {level: INFO, message: hi}}]\n")
	assert.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	stop()
	require.NoError(t, <-ended)
}

func TestAddressesOfWorkerMetrics(t *testing.T) {
	t.Parallel()
	for address, code := range map[string]fault.Code{
		"9424": fault.InvalidFormat, "0.0.0.0:9424": fault.ValidationError, ":9424": fault.ValidationError, "192.0.2.1:9424": fault.ValidationError,
		"example.com:9424": fault.ValidationError, "127.0.0.1:99999": fault.Unavailable,
	} {
		cfg := config(t)
		cfg.Worker.Metrics = address
		err := node.RunWorker(t.Context(), cfg)
		assert.Equal(t, code, fault.CodeOf(err), "%s: %v", address, err)
		assert.Equal(t, "metrics", fault.From(err).Field, address)
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	cfg := config(t)
	cfg.Worker.Metrics = taken.Addr().String()
	require.ErrorContains(t, node.RunWorker(t.Context(), cfg), "nothing can listen at "+cfg.Worker.Metrics)
	cfg.Worker.Metrics = "localhost:0"
	assert.ErrorContains(t, node.RunWorker(t.Context(), cfg), "no node runs")
}
