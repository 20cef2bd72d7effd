package network_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/node"
)

// cpu is the time that the process has computed.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkHeartbeats measures the cost of a heartbeat, including the client, on a node with 1,000 agents.
// percent_of_core is the cost of all agents when each sends one every 30 s.
func BenchmarkHeartbeats(b *testing.B) {
	dir := b.TempDir()
	n, err := node.Start(b.Context(), node.Config{
		DataDir: dir + "/data", Root: b.TempDir(), Storage: node.Storage{Durability: "relaxed"}, Worker: node.Worker{Concurrency: 1}, Version: "bench", Faces: node.Faces{HTTP: "127.0.0.1:0"},
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

// BenchmarkTaskQueue measures system.getTaskQueue over /rpc on a node with 5,000 tasks that wait for agents, including
// the two commits of the call.
func BenchmarkTaskQueue(b *testing.B) {
	n, err := node.Start(b.Context(), node.Config{
		DataDir: b.TempDir(), Root: b.TempDir(), Storage: node.Storage{Durability: "relaxed"}, Worker: node.Worker{Concurrency: 1}, Version: "bench", Faces: node.Faces{HTTP: "127.0.0.1:0"},
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, n.Stop(b.Context())) }()
	text, err := json.Marshal(planFor("research", "idempotent"))
	require.NoError(b, err)
	var batch api.SubmitBatchRequest
	for i := range 5000 {
		batch.Tasks = append(batch.Tasks, api.SubmitRequest{
			Plan: text, Actor: "user:bench", Priority: []string{"low", "normal", "high", "critical"}[i%4],
		})
	}
	_, err = n.API().SubmitBatch(b.Context(), batch)
	require.NoError(b, err)
	_, secret, err := bus.IssueToken(b.Context(), n.Tokens(), bus.NewToken{Name: "eye", Role: bus.RoleOperator, Actor: "user:bench"})
	require.NoError(b, err)
	cred := peer.Credential{URL: strings.TrimSuffix(n.FaceURL(), "/mcp"), Secret: secret}
	var took []time.Duration
	for b.Loop() {
		var found struct {
			Tasks []struct{ Priority string }
			Stats struct{ Total int } `json:"queueStats"`
		}
		begin := time.Now()
		require.NoError(b, rpc(b.Context(), cred, "system.getTaskQueue", object{}, &found))
		took = append(took, time.Since(begin))
		require.Len(b, found.Tasks, 20)
		require.Equal(b, "critical", found.Tasks[0].Priority)
		require.Equal(b, 5000, found.Stats.Total)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
