package network_test

import (
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/node"
)

// cpu is the time that the process has computed.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkHeartbeats measures what a heartbeat costs, the client that sends it included, on a node with 1,000 agents:
// percent_of_core is what all of them cost when each sends one every 30 s.
func BenchmarkHeartbeats(b *testing.B) {
	dir := b.TempDir()
	n, err := node.Start(b.Context(), node.Config{
		DataDir: dir + "/data", Root: b.TempDir(), Durability: "relaxed", Concurrency: 1, Version: "bench", HTTP: "127.0.0.1:0",
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, n.Stop(b.Context())) }()
	const count = 1000
	secrets := make([]string, count)
	for i := range secrets {
		task := events.NewTaskID(time.Now())
		_, err := n.Agents().Register(b.Context(), agents.Registration{
			Name: "agent-" + strconv.Itoa(i), Task: task, By: "user:bench",
			Profile: agents.Profile{Type: "developer", Version: "1.0.0", MaxTasks: 5, Timeout: time.Minute, Capabilities: []agents.Capability{{Name: "c" + strconv.Itoa(i%10), Category: "x"}}},
		})
		require.NoError(b, err)
		got, err := n.Agents().Collect(b.Context(), agents.Collection{Task: task, By: "user:bench"})
		require.NoError(b, err)
		secrets[i] = got.Secret
	}
	url := strings.TrimSuffix(n.FaceURL(), "/mcp") + "/agents/status"
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	began, calls := cpu(b), 0
	for b.Loop() {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(`{}`))
		require.NoError(b, err)
		r.Header.Set("Authorization", "Bearer "+secrets[calls%count])
		answer, err := client.Do(r)
		require.NoError(b, err)
		require.NoError(b, answer.Body.Close())
		require.Equal(b, http.StatusOK, answer.StatusCode)
		calls++
	}
	each := (cpu(b) - began) / time.Duration(calls)
	b.ReportMetric(float64(each.Microseconds()), "cpu-µs/beat")
	b.ReportMetric(100*each.Seconds()*count/30, "percent_of_core")
}
