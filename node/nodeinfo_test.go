package node_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/stats"
)

// S3-102, S3-007: the statistics of a node outlive it, and the archive.
func TestStatisticsOfANode(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP = "127.0.0.1:0"
	n := start(t, cfg)
	path := filepath.Join(cfg.Root, "a.txt")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	plan := "{orch: v1, name: reads, steps: [{id: a, tool: FILE_READ, with: {file_path: " + path + "}}]}"
	for range 3 {
		run(t, n.API(), plan)
	}
	counted := func(n *node.Node, want uint64) {
		t.Helper()
		<-n.Stats().Ready()
		require.Eventually(t, func() bool { return n.Stats().Tool("FILE_READ").Count == want }, time.Minute, time.Millisecond)
		assert.Equal(t, want, n.Stats().Tool("FILE_READ").Successes)
		assert.Positive(t, n.Stats().Tool("FILE_READ").Took)
	}
	counted(n, 3)
	reply, err := n.API().Archive(t.Context(), api.ArchiveRequest{Wait: time.Minute})
	require.NoError(t, err)
	require.Equal(t, 3, reply.Archived)
	run(t, n.API(), plan)
	counted(n, 4)
	assert.Equal(t, n.Stats().Table(), countedAnew(t, n), "what a process would count that finds no snapshot, after a kill")
	require.NoError(t, n.Stop(context.Background()))

	n = start(t, cfg)
	counted(n, 4)
	run(t, n.API(), plan)
	counted(n, 5)
	require.NoError(t, n.Stop(context.Background()))
	counted(start(t, cfg), 5)
}

// countedAnew returns the statistics computed from the whole log of a running node, live and archived, without a snapshot.
func countedAnew(t *testing.T, n *node.Node) stats.Table {
	t.Helper()
	keeper, err := stats.NewProjector(t.Context(), stats.ProjectorConfig{Log: n.Store(), Snapshots: emptyShelf{}, SnapshotInterval: time.Hour})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); keeper.Run(ctx) }()
	<-keeper.Ready()
	stop()
	<-ended
	return keeper.Table()
}

// emptyShelf stores no snapshot.
type emptyShelf struct{}

func (emptyShelf) SaveStats(context.Context, []byte) error { return nil }
func (emptyShelf) LoadStats(context.Context) ([]byte, error) {
	return nil, fault.New(fault.NotFound, "there is none")
}

// The tools about the node run only in its process, also beside remote workers, and without any other worker.
func TestToolsOfTheNodeRunInTheNode(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Worker.Concurrency, cfg.Worker.OwnTools = -1, true
	n := start(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	elsewhere := cfg
	elsewhere.Worker.Concurrency = 4
	go func() { ended <- node.RunWorker(ctx, elsewhere) }()
	t.Cleanup(func() { stop(); assert.NoError(t, <-ended) })
	for range 5 {
		r := run(t, n.API(), `{orch: v1, name: ask, steps: [{id: a, tool: system.listSkills, with: {search: file}}], outputs: {total: "${{ steps.a.output.total }}"}}`)
		require.Nil(t, r.Error, "%v", r.Error)
		assert.Contains(t, string(r.Output), "total")
	}
	assert.NotNil(t, run(t, n.API(), "{orch: v1, name: reads, steps: [{id: a, tool: FILE_READ, with: {file_path: /none}}]}").Error, "the other worker takes all the others")
}

// status returns the result of system.getSystemStatus.
func (e *endpoint) status() object {
	e.t.Helper()
	r := e.call("system.getSystemStatus", object{"includeDependencies": true})
	require.Nil(e.t, r.Error, "%v", r.Error)
	return r.Result
}

// S3-121, S3-122: a node that is well, one whose GitHub fails, and one whose log takes nothing.
func TestSystemStatus(t *testing.T) {
	t.Parallel()
	fails := true
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/rate_limit", r.URL.Path)
		if fails {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		assert.NoError(t, json.NewEncoder(w).Encode(object{"resources": object{"core": object{"limit": 60, "remaining": 59, "reset": 1_800_000_000}}}))
	}))
	t.Cleanup(github.Close)
	e := serveRPC(t, func(c *node.Config) { c.Tools.GitHubURL = github.URL })
	s := e.status()
	assert.Equal(t, "degraded", s["status"])
	alerts, _ := s["alerts"].([]any)
	require.Len(t, alerts, 1)
	assert.Contains(t, alerts[0], "timestamp")
	services, _ := s["services"].(object)
	hub, _ := services["github"].(object)
	assert.Equal(t, "down", hub["status"])
	assert.NotContains(t, hub, "rateLimit")
	fire, _ := services["firebase"].(object)
	assert.Equal(t, "up", fire["status"], "the databases beside the log answer")

	fails = false
	e = serveRPC(t, func(c *node.Config) { c.Tools.GitHubURL = github.URL })
	require.Nil(t, e.call("test.fail", object{}).Error)
	s = e.status()
	assert.Equal(t, "healthy", s["status"], "%v", s)
	services, _ = s["services"].(object)
	hub, _ = services["github"].(object)
	assert.Equal(t, "up", hub["status"])
	limit, _ := hub["rateLimit"].(object)
	assert.InDelta(t, 59, limit["remaining"], 0)
	figures, _ := s["metrics"].(object)
	assert.Positive(t, figures["memoryUsage"])
	assert.InDelta(t, 0, figures["tasksInQueue"], 0, "the call itself is not work that waits")
	assert.InDelta(t, 1, figures["successRate"], 0)
	parts, _ := s["dependencies"].(object)
	for _, name := range []string{"nats", "jetstream"} {
		part, _ := parts[name].(object)
		assert.Equal(t, "up", part["status"])
		assert.Positive(t, part["latency"])
	}
	assert.Equal(t, "test", s["version"])
}

// S3-122: when the log takes nothing, the question for that is answered outside of it, and no other call is made.
func TestSystemStatusOfAFullDisk(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP, cfg.User, cfg.Extra = "127.0.0.1:0", "ada", failing()
	require.NoError(t, start(t, cfg).Stop(t.Context()))
	token, err := os.ReadFile(filepath.Join(cfg.DataDir, bus.LocalTokenFile))
	require.NoError(t, err)
	cfg.Storage.MinFree = 1 << 60
	e := &endpoint{Node: start(t, cfg), t: t, token: strings.TrimSpace(string(token))}
	r := e.call("test.fail", object{})
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.DiskFull.RPC(), r.Error.Code)
	s := e.status()
	assert.Equal(t, "critical", s["status"])
	alerts, _ := s["alerts"].([]any)
	require.NotEmpty(t, alerts)
	first, _ := alerts[0].(object)
	assert.Equal(t, "critical", first["level"])
	parts, _ := s["dependencies"].(object)
	log, _ := parts["jetstream"].(object)
	assert.Equal(t, "down", log["status"])
}

// S3-081: the welcome names tools that the agent may call.
func TestWelcomeOfANode(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r := e.call("onboarding.getWelcome", object{"agentName": "Nia", "role": "developer"})
	require.Nil(t, r.Error, "%v", r.Error)
	steps, _ := r.Result["quickStart"].([]any)
	assert.Greater(t, len(steps), 4)
	text, err := json.Marshal(r.Result)
	require.NoError(t, err)
	assert.Contains(t, string(text), "Nia")
	assert.Contains(t, string(text), "user:ada")
}

// S3-110 to S3-115 over the face: what waits for an approval stands in the queue.
func TestTaskQueueOfANode(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	waits := e.call("test.asks", object{})
	require.NotNil(t, waits.Error)
	r := e.call("system.getTaskQueue", object{"status": "blocked"})
	require.Nil(t, r.Error, "%v", r.Error)
	tasks, _ := r.Result["tasks"].([]any)
	require.Len(t, tasks, 1)
	one, _ := tasks[0].(object)
	assert.Equal(t, waits.Error.Data["task"], one["id"])
	assert.Equal(t, "blocked", one["status"])
	assert.Equal(t, "test.asks", one["title"])
	figures, _ := r.Result["queueStats"].(object)
	assert.InDelta(t, 1, figures["total"], 0)
}
