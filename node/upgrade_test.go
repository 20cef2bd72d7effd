package node_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

// Stores of earlier versions can be opened forever: each task is listed, read and replayed as it was when the store was added.
// To add a store see scripts/store-fixture; to update the expected results: ORCH_UPDATE_GOLDEN=1 go test ./node -run
// TestFormerStores
func TestFormerStores(t *testing.T) {
	t.Parallel()
	stores, err := filepath.Glob(filepath.Join("testdata", "stores", "*.tar.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, stores)
	for _, store := range stores {
		t.Run(filepath.Base(store), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			packed := unpack(t, store, dir)
			cfg := node.Config{DataDir: dir, Root: t.TempDir(), Worker: node.Worker{Concurrency: -1}, Paused: true}
			for range 2 { // the second start uses what the first has changed
				got := tellStore(t, cfg, packed)
				golden := strings.TrimSuffix(store, ".tar.gz") + ".golden.json"
				if os.Getenv("ORCH_UPDATE_GOLDEN") != "" {
					require.NoError(t, os.WriteFile(golden, got, 0o600))
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				require.Equal(t, string(want), string(got))
				assert.FileExists(t, filepath.Join(dir, "store.json"), "it has a version now")
			}
		})
	}
}

// told is the expected description of one task of a store.
type told struct {
	ID      events.TaskID    `json:"id"`
	Name    string           `json:"name"`
	State   string           `json:"state"`
	Chain   bool             `json:"chain"`
	Commits []api.CommitView `json:"commits"`
}

// tellStore starts a node and returns the tasks of its store as they were when the store was packed, one per line. What is later depends on
// the clock, such as deadlines.
func tellStore(t *testing.T, cfg node.Config, packed time.Time) []byte {
	t.Helper()
	ctx := t.Context()
	n, err := node.Start(ctx, cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Stop(ctx)) }()
	report, err := n.Store().Verify(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.NotZero(t, report.Blobs)
	list, err := n.API().List(ctx, api.ListRequest{Limit: 1000})
	require.NoError(t, err)
	var b bytes.Buffer
	slices.SortFunc(list.Tasks, func(a, b api.Summary) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for _, s := range list.Tasks {
		if s.CreatedAt.After(packed) {
			continue
		}
		history, err := n.API().History(ctx, api.HistoryRequest{ID: s.ID})
		require.NoError(t, err)
		commits := slices.DeleteFunc(history.Commits, func(c api.CommitView) bool { return c.At.After(packed) })
		replay, err := n.API().Replay(ctx, api.ReplayRequest{ID: s.ID, At: commits[len(commits)-1].Rev})
		require.NoError(t, err)
		line, err := json.Marshal(told{s.ID, s.Name, string(replay.Task.State), replay.Chain, commits})
		require.NoError(t, err)
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

// unpack unpacks a store, and returns when it was packed.
func unpack(t *testing.T, file, dir string) (packed time.Time) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return packed.Add(time.Second) // a time in a tar file has no fractions
		}
		require.NoError(t, err)
		if h.ModTime.After(packed) {
			packed = h.ModTime
		}
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o700))
			continue
		}
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
}

// Commits of a newer orch are no damage: their task cannot be read, the others can, and nothing is appended.
func TestNewerCommits(t *testing.T) {
	t.Parallel()
	cfg := node.Config{DataDir: filepath.Join(t.TempDir(), "data"), Root: t.TempDir(), Worker: node.Worker{Concurrency: -1}}
	ctx := t.Context()
	n, err := node.Start(ctx, cfg)
	require.NoError(t, err)
	greet := api.SubmitRequest{Actor: "user:test", Plan: json.RawMessage(`"orch: v1\nname: x\nsteps: [{id: a, wait: {signal: go}}]\n"`)}
	old, err := n.API().Submit(ctx, greet)
	require.NoError(t, err)
	own, err := n.API().Submit(ctx, greet)
	require.NoError(t, err)
	require.NoError(t, n.Stop(ctx))
	appendNewer(t, cfg.DataDir, own.ID)

	n, err = node.Start(ctx, cfg)
	require.NoError(t, err)
	_, err = n.API().Get(ctx, api.GetRequest{ID: own.ID})
	require.Equal(t, fault.NewerStore, fault.CodeOf(err))
	view, err := n.API().Get(ctx, api.GetRequest{ID: old.ID})
	require.NoError(t, err)
	assert.Equal(t, old.ID, view.ID)
	list, err := n.API().List(ctx, api.ListRequest{})
	require.NoError(t, err)
	unreadable := map[events.TaskID]fault.Code{}
	for _, task := range list.Tasks {
		unreadable[task.ID] = task.Unreadable
	}
	assert.Equal(t, map[events.TaskID]fault.Code{old.ID: "", own.ID: fault.NewerStore}, unreadable)
	_, err = n.API().Submit(ctx, greet)
	assert.Equal(t, fault.NewerStore, fault.CodeOf(err))
	report, err := n.Store().Verify(ctx, nil)
	require.NoError(t, err)
	assert.Empty(t, report.Problems)
	assert.Equal(t, uint64(1), report.Newer)
	status, err := n.API().Status(ctx, api.StatusRequest{})
	require.NoError(t, err)
	require.NotNil(t, status.Refusing)
	assert.Equal(t, fault.NewerStore, status.Refusing.Code)
	assert.NotContains(t, status.Refusing.Hint, "backup")
	require.NoError(t, n.Stop(ctx))
}

// appendNewer appends a commit to a task as a newer orch might.
func appendNewer(t *testing.T, dataDir string, task events.TaskID) {
	t.Helper()
	ctx := t.Context()
	server, err := bus.StartServer(ctx, bus.ServerConfig{DataDir: dataDir})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Close(ctx)) }()
	conn, err := server.Connect(ctx)
	require.NoError(t, err)
	defer conn.Close()
	store, err := conn.OpenStore(ctx, bus.StoreConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close(ctx)) }()
	var last events.Stored
	rev := uint64(0)
	for c, err := range store.Read(ctx, task, 1) {
		require.NoError(t, err)
		last = c
		rev++
	}
	done := make(chan error)
	store.Append(events.Record{
		After: last.Seq, Head: events.Head{Task: task, Rev: rev + 1, State: "IN_PROGRESS", Name: "x", At: time.Now(), Created: time.Now()},
		Data: []byte(`{"v":2,"whatever":"it is"}`),
	}, func(_ uint64, err error) { done <- err })
	require.NoError(t, <-done)
}

// A store that a newer orch has written is refused for writing, and can be opened for reading.
func TestNewerStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	packed := unpack(t, filepath.Join("testdata", "stores", "2026-11-22.tar.gz"), dir)
	cfg := node.Config{DataDir: dir, Root: t.TempDir(), Worker: node.Worker{Concurrency: -1}, Paused: true}
	before := tellStore(t, cfg, packed)
	version := filepath.Join(dir, "store.json")
	require.NoError(t, os.WriteFile(version, []byte(`{"version":7,"readable_from":1}`), 0o600))
	_, err := node.Start(t.Context(), cfg)
	require.Equal(t, fault.NewerStore, fault.CodeOf(err))
	assert.Contains(t, fault.From(err).Hint, "newer orch")

	cfg.Storage.ReadNewer = true
	assert.Equal(t, string(before), string(tellStore(t, cfg, packed)))
	n, err := node.Start(t.Context(), cfg)
	require.NoError(t, err)
	_, err = n.API().Submit(t.Context(), api.SubmitRequest{Actor: "user:test", Plan: json.RawMessage(`"orch: v1\nname: x\nsteps: [{id: a, set: {n: 1}}]\n"`)})
	assert.Equal(t, fault.NewerStore, fault.CodeOf(err))
	require.NoError(t, n.Stop(t.Context()))

	require.NoError(t, os.WriteFile(version, []byte(`{"version":7,"readable_from":4}`), 0o600))
	_, err = node.Start(t.Context(), cfg)
	assert.Equal(t, fault.NewerStore, fault.CodeOf(err))
	require.NoError(t, os.WriteFile(version, []byte(`{"version":7,"readable_from":1,"sum":"x"}`), 0o600))
	_, err = node.Start(t.Context(), cfg)
	assert.Equal(t, fault.DataLoss, fault.CodeOf(err), "a damaged version is believed by nobody")
}

// A store of the day has what was added since 0.1.0: schedules, hooks, a hold and the audit stream.
func TestFormerJournals(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	unpack(t, filepath.Join("testdata", "stores", "2026-11-29.tar.gz"), dir)
	n, err := node.Start(t.Context(), node.Config{DataDir: dir, Root: t.TempDir(), Worker: node.Worker{Concurrency: -1}, Paused: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Stop(t.Context())) }()
	held, err := n.API().Holds(t.Context(), api.HoldsRequest{})
	require.NoError(t, err)
	require.Len(t, held.Holds, 1)
	assert.Equal(t, "case 4711", held.Holds[0].Reason)
	schedules, err := n.API().Schedules(t.Context(), api.SchedulesRequest{})
	require.NoError(t, err)
	require.Len(t, schedules.Schedules, 1)
	assert.Equal(t, "nightly", schedules.Schedules[0].Name)
	hooks, err := n.API().Hooks(t.Context(), api.HooksRequest{})
	require.NoError(t, err)
	require.Len(t, hooks.Hooks, 1)
	assert.Equal(t, "push", hooks.Hooks[0].Name)
	v, err := bus.ReadVersion(dir)
	require.NoError(t, err)
	assert.Equal(t, 2, v.Version)
}
