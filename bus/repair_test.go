package bus_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/need"
)

// A foreign stream is checked as well, because the server reads it: if it is damaged it is quarantined, and reported.
func TestForeignStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		at   float64
	}{
		"a record": {"msgs/1.blk", 0.5}, "the newest": {"msgs/1.blk", 0.95}, "the description": {"meta.inf", 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			n := bustest.NewNode(t, bus.ServerConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			chain := eventstest.NewChain()
			chain.Grow(t, n, 2)
			js := client(t, n)
			_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>"}})
			require.NoError(t, err)
			for range 4 {
				_, err := js.Publish(t.Context(), "other.x", []byte("some text of others"))
				require.NoError(t, err)
			}
			dir := filepath.Join(n.Config.DataDir, "nats", "jetstream", "$G", "streams", "OTHER")
			n.Stop(t)
			n.Start(t)
			require.DirExists(t, dir, "it stays as long as it is whole")
			n.Stop(t)
			flipAt(t, filepath.Join(dir, c.file), c.at)
			log.Reset()
			n.Start(t)
			assert.NoDirExists(t, dir)
			assert.Contains(t, log.String(), "OTHER")
			list, err := os.ReadFile(filepath.Join(n.Config.DataDir, "aside", "list.jsonl"))
			require.NoError(t, err)
			assert.Contains(t, string(list), `"stream":"OTHER"`)
			kept, err := filepath.Glob(filepath.Join(n.Config.DataDir, "aside", "*", "nats", "jetstream", "$G", "streams", "OTHER", "meta.inf"))
			require.NoError(t, err)
			assert.Len(t, kept, 1)
			assert.Len(t, eventstest.History(t, n, chain.Task, 1), 2)
			requireIntact(t, n)
		})
	}
}

// flipAt changes one bit at a fraction of a file.
func flipAt(t *testing.T, path string, where float64) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[int(where*float64(len(data)))] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// What the last start tried is tried again: no byte of it stops a node, or is read by the server when it is damaged.
func TestEveryByteOfTheProbe(t *testing.T) {
	t.Parallel()
	need.Long(t)
	n := bustest.NewNode(t, bus.ServerConfig{})
	n.Stop(t)
	dir := filepath.Join(n.Config.DataDir, "nats", "jetstream", "$G", "streams", "ORCH_PROBE")
	for _, file := range []string{"msgs/1.blk", "meta.inf", "meta.sum"} {
		path := filepath.Join(dir, filepath.FromSlash(file))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for at := range data {
			data[at] ^= 1
			require.NoError(t, os.WriteFile(path, data, 0o600))
			report, err := bus.Inspect(t.Context(), n.Config.DataDir)
			require.NoError(t, err)
			require.Zero(t, report.Found)
			require.Len(t, report.Mended, 1, "byte %d of %s", at, file)
			data[at] ^= 1
		}
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	const lengths = 146 // of the second record: the server would have trusted them
	data, err := os.ReadFile(filepath.Join(dir, "msgs", "1.blk"))
	require.NoError(t, err)
	data[lengths] ^= 0x80
	require.NoError(t, os.WriteFile(filepath.Join(dir, "msgs", "1.blk"), data, 0o600))
	n.Start(t)
	requireIntact(t, n)
}

// Indexes that carry no checksum are made again, and files that orch does not write are set aside.
func TestStrayFiles(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	stream := func(name string) string {
		return filepath.Join(n.Config.DataDir, "nats", "jetstream", "$G", "streams", "ORCH_MESSAGES", filepath.FromSlash(name))
	}
	wheel := stream("msgs/thw.db")
	require.FileExists(t, wheel)
	require.NoError(t, os.WriteFile(wheel, bytes.Repeat([]byte{1}, 17), 0o600))
	for _, name := range []string{"obs/somebody/meta.inf", "msgs/07.blk", "__new_msgs__/1.blk"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(stream(name)), 0o700))
		require.NoError(t, os.WriteFile(stream(name), []byte("?"), 0o600))
	}
	report, err := bus.Inspect(t.Context(), n.Config.DataDir)
	require.NoError(t, err)
	assert.Zero(t, report.Found)
	assert.Len(t, report.Mended, 3)
	n.Start(t)
	for _, name := range []string{"obs/somebody/meta.inf", "msgs/07.blk", "__new_msgs__/1.blk"} {
		assert.NoFileExists(t, stream(name))
	}
	requireIntact(t, n)
}

// The small files of a data directory are under checksums, and are read when an older program wrote them without.
func TestSmallFiles(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	path := filepath.Join(n.Config.DataDir, "auth.json")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := range data {
		data[at] ^= 1
		require.NoError(t, os.WriteFile(path, data, 0o600))
		data[at] ^= 1
		report, err := bus.Inspect(t.Context(), n.Config.DataDir)
		require.NoError(t, err)
		if report.Found > 0 {
			assert.Equal(t, "auth.json", report.Problems[0].File)
			continue
		}
		start, end := bytes.Index(data, []byte(`,"sum"`)), bytes.LastIndex(data, []byte(`":"`))
		assert.True(t, at >= start && at < end+3 || at == len(data)-1, "byte %d counts for something", at)
	}
	old, _, found := bytes.Cut(data, []byte(`,"sum"`))
	require.True(t, found)
	require.NoError(t, os.WriteFile(path, old, 0o600))
	require.ErrorIs(t, n.Serve(t), &fault.Error{Code: fault.DataLoss}, "half a file")
	require.NoError(t, os.WriteFile(path, append(bytes.Clone(old), '}'), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(n.Config.DataDir, "worker.json"), []byte(`{"name":"a","sum":"b"}`), 0o600))
	n.Start(t)
	assert.Empty(t, n.Server.LastWorker())
}
