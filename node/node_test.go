package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config returns the configuration of a node in directories of the test.
func config(t *testing.T) node.Config {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	require.NoError(t, os.Mkdir(root, 0o700))
	return node.Config{DataDir: filepath.Join(dir, "data"), Root: root, Storage: node.Storage{Durability: "relaxed"}, Worker: node.Worker{Concurrency: 4}, Version: "test"}
}

func start(t *testing.T, cfg node.Config) *node.Node {
	t.Helper()
	n, err := node.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Stop(context.Background())) })
	return n
}

// run submits a plan and returns how it ended.
func run(t *testing.T, owner api.API, plan string) api.ResultReply {
	t.Helper()
	return result(t, owner, submit(t, owner, plan))
}

func submit(t *testing.T, owner api.API, plan string) events.TaskID {
	t.Helper()
	text, err := json.Marshal(plan)
	require.NoError(t, err)
	reply, err := owner.Submit(t.Context(), api.SubmitRequest{Plan: text, Actor: "user:test"})
	require.NoError(t, err)
	return reply.ID
}

func result(t *testing.T, owner api.API, id events.TaskID) api.ResultReply {
	t.Helper()
	r, err := owner.Result(t.Context(), api.ResultRequest{ID: id, Wait: time.Minute})
	require.NoError(t, err)
	require.True(t, r.Ended, "%s: %s", r.State, r.Reason)
	return r
}

const realWork = `
orch: v1
name: real work
steps:
  - {id: write, tool: FILE_WRITE, with: {file_path: "${{ task.workspace }}/outputs/a.txt", content: "one\n"}}
  - {id: read, needs: [write], tool: FILE_READ, with: {file_path: "${{ task.workspace }}/outputs/a.txt"}}
  - {id: edit, needs: [read], tool: FILE_EDIT, with: {file_path: "${{ task.workspace }}/outputs/a.txt", old_string: one, new_string: two}}
  - {id: shell, needs: [edit], tool: BASH_EXECUTE, with: {command: "cat ../outputs/a.txt"}}
outputs:
  text: ${{ steps.shell.output.stdout }}
`

func TestRealToolsThroughEveryLayer(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	id := submit(t, n.API(), realWork)
	r := result(t, n.API(), id)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.JSONEq(t, `{"text":"two\n"}`, string(r.Output))

	// the workspace has its parts, and its temporary files are gone.
	workspace := filepath.Join(cfg.Root, "Working", string(id))
	for _, part := range []string{"workspace", "outputs", "PROGRESS.md", "CHECKPOINTS.md"} {
		assert.FileExists(t, statable(t, filepath.Join(workspace, part)))
	}
	assert.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(workspace, "temp"))
		return os.IsNotExist(err)
	}, time.Minute, 5*time.Millisecond)

	replay, err := n.API().Replay(t.Context(), api.ReplayRequest{ID: id})
	require.NoError(t, err)
	assert.True(t, *replay.Live)
}

// statable returns path if it is a file, or a file inside when it is a folder.
func statable(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	if info.IsDir() {
		return filepath.Join(filepath.Dir(path), "PROGRESS.md")
	}
	return path
}

// Stop waits for the background jobs on files before it closes the root.
func TestStopEndsTheChores(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Worker.Concurrency = 6 // more than background jobs at the same time
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	idle := cfg
	idle.Worker.Concurrency = -1
	n := start(t, idle)
	var ids []events.TaskID
	for range 6 {
		id := submit(t, n.API(), `{orch: v1, steps: [{id: a, tool: BASH_EXECUTE, with: {command: "true"}}]}`)
		fill(t, filepath.Join(cfg.Root, "Working", string(id), "temp"))
		ids = append(ids, id)
	}
	require.NoError(t, n.Stop(t.Context()))

	n = start(t, cfg)
	for _, id := range ids {
		r := result(t, n.API(), id)
		require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	}
	require.NoError(t, n.Stop(t.Context()))
	assert.Empty(t, log.String())
	for _, id := range ids {
		folder := filepath.Join(cfg.Root, "Working", string(id))
		assert.DirExists(t, folder)
		assert.NoDirExists(t, filepath.Join(folder, "temp"))
	}
}

// fill makes so many files that their removal takes a while.
func fill(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for i := range 1500 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600))
	}
}

func TestRestartGoesOn(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	idle := cfg
	idle.Worker.Concurrency = -1
	n := start(t, idle)
	id := submit(t, n.API(), realWork)
	require.NoError(t, n.Stop(t.Context()))

	n = start(t, cfg)
	r := result(t, n.API(), id)
	assert.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	report, err := n.Store().Verify(t.Context(), nil)
	require.NoError(t, err)
	assert.Zero(t, report.Found, "%v", report.Problems)
}

func TestWorkerAndClientElsewhere(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Operator = "user:test"
	server := cfg
	server.Worker.Concurrency = -1
	n := start(t, server)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.RunWorker(ctx, cfg) }()
	remote, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { assert.NoError(t, remote.Close()) }()
	r := run(t, remote, realWork)
	assert.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	status, err := remote.Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, "ok", status.Store)
	assert.Len(t, status.Workers, 1)
	report, err := remote.Verify(t.Context())
	require.NoError(t, err)
	assert.Zero(t, report.Found)
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, n.Stop(t.Context()))
}

// two nodes never share a data directory.
func TestSecondNodeIsRefused(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	start(t, cfg)
	_, err := node.Start(t.Context(), cfg)
	var f *fault.Error
	require.ErrorAs(t, err, &f)
	assert.Equal(t, fault.Conflict, f.Code)
	assert.Equal(t, bus.DataDirInUse, f.Reason)
	assert.NotEmpty(t, f.Hint)
}

// The same tests against an external NATS server.
func TestExternalServer(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	server, err := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: filepath.Join(t.TempDir(), "nats")})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close(context.Background())) })
	cfg.Storage.NATSURL = withCredential(t, server)
	n := start(t, cfg)
	r := run(t, n.API(), realWork)
	assert.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	remote, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	list, err := remote.List(t.Context(), api.ListRequest{})
	require.NoError(t, err)
	assert.Len(t, list.Tasks, 1)
	require.NoError(t, remote.Close())
}

// A node with an external server creates its data directory, so that the token of its user stays the same.
func TestExternalServerKeepsTheToken(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	server, err := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: filepath.Join(t.TempDir(), "nats")})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close(context.Background())) })
	cfg.Storage.NATSURL, cfg.User = withCredential(t, server), "Ada"
	cfg.DataDir = filepath.Join(cfg.DataDir, "not", "there")
	var tokens []string
	for range 2 {
		n := start(t, cfg)
		require.NoError(t, n.Stop(t.Context()))
		data, err := os.ReadFile(filepath.Join(cfg.DataDir, bus.LocalTokenFile))
		require.NoError(t, err)
		tokens = append(tokens, string(data))
	}
	assert.Equal(t, tokens[0], tokens[1])
	info, err := os.Stat(cfg.DataDir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func withCredential(t *testing.T, server *bus.Server) string {
	t.Helper()
	var auth struct{ Operator string }
	data, err := os.ReadFile(filepath.Join(server.DataDir(), "auth.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &auth))
	return strings.Replace(server.Addr(), "nats://", "nats://operator:"+auth.Operator+"@", 1)
}

// nothing listens beyond loopback.
func TestListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	host, _, err := net.SplitHostPort(strings.TrimPrefix(n.Address(), "nats://"))
	require.NoError(t, err)
	assert.True(t, net.ParseIP(host).IsLoopback(), host)
}

// a secret that a tool meets is nowhere in what the node keeps, says, or hands to children.
func TestSecretsAreNowhere(t *testing.T) {
	const canary = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	t.Setenv("ORCH_CANARY", canary)
	t.Setenv("GITHUB_TOKEN", canary)
	cfg := config(t)
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Root, "notes.txt"), []byte("the token is "+canary+"\n"), 0o600))
	n := start(t, cfg)
	root := cfg.Root
	id := submit(t, n.API(), `
orch: v1
steps:
  - {id: read, tool: FILE_READ, with: {file_path: `+root+`/notes.txt}}
  - {id: grep, tool: GREP_SEARCH, with: {pattern: token, path: `+root+`}}
  - {id: shell, tool: BASH_EXECUTE, with: {command: "cat notes.txt; cat notes.txt >&2; env", working_directory: `+root+`}}
  - {id: fails, on_error: continue, tool: FILE_EDIT, with: {file_path: `+root+`/notes.txt, old_string: "${{ steps.read.output.content }}", new_string: x}}
outputs: {all: "${{ steps.shell.output.stdout }}"}
`)
	r := result(t, n.API(), id)
	require.Nil(t, r.Error)
	assert.NotContains(t, string(r.Output), canary)
	assert.Contains(t, string(r.Output), "REDACTED")
	_, err := n.API().Submit(t.Context(), api.SubmitRequest{Plan: json.RawMessage(`{"orch":"v1","steps":[{"id":"a","tool":"LOG_WRITE","with":{"level":"INFO","message":"` + canary + `"}}]}`)})
	require.True(t, fault.Has(err, fault.SecretDetected), "%v", err)
	assert.NotContains(t, err.Error(), canary)
	require.NoError(t, n.Stop(t.Context()))

	require.NoError(t, os.Remove(filepath.Join(cfg.Root, "notes.txt")))
	for _, dir := range []string{cfg.DataDir, cfg.Root} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			assert.False(t, bytes.Contains(data, []byte(canary)), "the secret is in %s", path)
			return err
		}))
	}
}

// A node starts with a full disk, reports that, and continues when there is room.
func TestStartsOnFullDisk(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	id := submit(t, n.API(), "orch: v1\nsteps: [{id: g, wait: {signal: go}}]\n")
	require.NoError(t, n.Stop(t.Context()))
	full := cfg
	full.Storage.MinFree = 1 << 60
	n = start(t, full)
	view, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	assert.False(t, view.State.Terminal())
	_, err = n.API().Signal(t.Context(), api.SignalRequest{ID: id, Name: "go", Actor: "user:test"})
	assert.Equal(t, fault.DiskFull, fault.CodeOf(err))
	why, err := n.API().Explain(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	require.NotEmpty(t, why.Causes)
	assert.Equal(t, "store", why.Causes[0].Kind)
	assert.Regexp(t, `^The log accepts no changes since .*: the disk of the data directory has \d+ bytes free`, why.Causes[0].Sentence)
	assert.Contains(t, why.Causes[0].Next, "free some space")
	status, err := n.API().Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	require.NotNil(t, status.Refusing)
	assert.Equal(t, fault.DiskFull, status.Refusing.Code)
	assert.False(t, status.Refusing.Since.IsZero())
	require.NoError(t, n.Stop(t.Context()))
	n = start(t, cfg)
	_, err = n.API().Signal(t.Context(), api.SignalRequest{ID: id, Name: "go", Actor: "user:test"})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Done, result(t, n.API(), id).State)
}
