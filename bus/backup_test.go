package bus_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/test/need"
)

// A backup restores every history at its positions, and the log continues after them.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	n, last := filled(t)
	n.Start(t)
	_, err := n.Save(t.Context(), last.Task, "CP_1", []byte(`{"x":1}`))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "a.backup")
	steps := map[string]bool{}
	_, err = n.Backup(t.Context(), file, bus.BackupConfig{
		Version: "v1", Progress: func(stream string, _, _ uint64) { steps[stream] = true },
	})
	require.NoError(t, err)
	assert.Len(t, steps, 5)
	want := contentOf(t, n, last.Task)
	n.Stop(t)

	back := &bustest.Node{Config: bus.ServerConfig{DataDir: filepath.Join(t.TempDir(), "data")}}
	r, err := bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: back.Config.DataDir})
	require.NoError(t, err)
	assert.Equal(t, "v1", r.Manifest.Version)
	assert.Empty(t, r.Aside)
	assert.Equal(t, uint64(45), r.Report.Last)
	back.Start(t)
	t.Cleanup(func() { back.Stop(t) })
	assert.Equal(t, want, contentOf(t, back, last.Task))
	got, err := back.Load(t.Context(), last.Task, "CP_1")
	require.NoError(t, err)
	assert.JSONEq(t, `{"x":1}`, string(got))
	added := last.Grow(t, back, 1)
	assert.Equal(t, uint64(46), added[0].Seq, "no position is used twice")
	requireIntact(t, back)
	assert.NotEqual(t, bustest.Passwords(t, n.Config.DataDir), bustest.Passwords(t, back.Config.DataDir), "credentials are not in a backup")
}

// contentOf returns the whole histories of all tasks, live and archived.
func contentOf(t *testing.T, n *bustest.Node, task events.TaskID) map[events.TaskID][]events.Stored {
	t.Helper()
	all := map[events.TaskID][]events.Stored{}
	for id := range eventstest.HeadsOf(t, n) {
		all[id] = eventstest.History(t, n, id, 1)
	}
	for h, err := range n.ArchivedHeads(t.Context()) {
		require.NoError(t, err)
		all[h.Task] = eventstest.History(t, n, h.Task, 1)
	}
	require.NotEmpty(t, all[task])
	return all
}

// A backup taken while tasks are written and archived is a consistent snapshot of the log.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	need.Long(t)
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for ctx.Err() == nil {
				c := eventstest.NewChain()
				c.Grow(t, n, 3)
				if err := n.Archive(t.Context(), c.Task); !fault.Has(err, fault.Unavailable) {
					assert.NoError(t, err)
				}
			}
		})
	}
	remote := dialNode(t, n)
	for range 5 {
		file := filepath.Join(t.TempDir(), "a.backup")
		_, err := remote.Backup(t.Context(), file, bus.BackupConfig{})
		require.NoError(t, err)
		r, err := bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: filepath.Join(t.TempDir(), "data")})
		require.NoError(t, err)
		assert.Zero(t, r.Report.Found)
		assert.NotZero(t, r.Report.Tasks)
	}
	stop()
	writers.Wait()
	c := eventstest.NewChain()
	c.Grow(t, n, 1)
	require.NoError(t, n.Archive(t.Context(), c.Task), "the hold ends with the backup")
}

// noAPI is a node without commands of its own.
type noAPI struct{ api.API }

func dialNode(t *testing.T, n *bustest.Node) *rpc.Remote {
	t.Helper()
	end, err := rpc.ServeAPI(n.Conn, noAPI{}, n.Store, rpc.EndpointConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, end.Close(context.WithoutCancel(t.Context()))) })
	c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: n.Config.DataDir})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return rpc.NewRemote(c)
}

func TestBackupErrors(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	n.Start(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.backup")
	_, err := n.Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	_, err = n.Backup(t.Context(), file, bus.BackupConfig{})
	assert.Equal(t, fault.Conflict, fault.CodeOf(err), "nothing is overwritten")
	_, err = n.Backup(t.Context(), filepath.Join(dir, "none", "a"), bus.BackupConfig{})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	flip(t, streamFiles(t, n, "ORCH_EVENTS", "*.blk")[0], event, 0.5)
	_, err = n.Backup(t.Context(), filepath.Join(dir, "b.backup"), bus.BackupConfig{})
	assert.Equal(t, fault.DataLoss, fault.CodeOf(err), "a damaged store is not backed up")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is left of what failed")
}

// Of several backups to one name, one gets it.
func TestBackupsToOneName(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	n.Start(t)
	dir := t.TempDir()
	const rivals = 4
	errs := make([]error, rivals)
	var done sync.WaitGroup
	for i := range rivals {
		done.Go(func() { _, errs[i] = n.Backup(t.Context(), filepath.Join(dir, "a.backup"), bus.BackupConfig{}) })
	}
	done.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		e, ok := errors.AsType[*fault.Error](err)
		require.True(t, ok)
		assert.Equal(t, fault.Conflict, e.Code)
		assert.NotEmpty(t, e.Hint)
	}
	assert.Equal(t, 1, won)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is left of the others")
	_, err = bus.Restore(t.Context(), bus.RestoreConfig{File: filepath.Join(dir, "a.backup"), DataDir: filepath.Join(t.TempDir(), "data")})
	require.NoError(t, err)
}

// A backup of another format is refused with the version that can read it, if that is recorded.
func TestRestoreOfAnotherFormat(t *testing.T) {
	t.Parallel()
	for manifest, hint := range map[string]string{
		`{"format":99}`:                  "use the version of orch that wrote it",
		`{"format":99,"version":"v9.9"}`: "use the version of orch that wrote it: v9.9",
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "manifest.json", Mode: 0o600, Size: int64(len(manifest))}))
		_, err := w.Write([]byte(manifest))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		file := filepath.Join(t.TempDir(), "a.backup")
		require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
		_, err = bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: filepath.Join(t.TempDir(), "data")})
		e, ok := errors.AsType[*fault.Error](err)
		require.True(t, ok)
		assert.Equal(t, fault.NewerStore, e.Code)
		assert.Equal(t, hint, e.Hint)
	}
}

func TestRestoreErrors(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	n.Start(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.backup")
	_, err := n.Backup(t.Context(), file, bus.BackupConfig{Credentials: n.Config.DataDir})
	require.NoError(t, err)
	restore := func(file, data string, replace bool) error {
		_, err := bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: data, Replace: replace})
		return err
	}
	assert.Equal(t, fault.NotFound, fault.CodeOf(restore(filepath.Join(dir, "none"), filepath.Join(dir, "x"), false)))
	err = restore(file, n.Config.DataDir, false)
	require.ErrorIs(t, err, &fault.Error{Code: fault.Conflict}, "it is not empty")
	err = restore(file, n.Config.DataDir, true)
	require.ErrorIs(t, err, &fault.Error{Code: fault.Conflict}, "a node runs on it")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(n.Config.DataDir, link))
	err = restore(file, link, true)
	require.ErrorIs(t, err, &fault.Error{Code: fault.Conflict}, "a node runs on it under another name")
	require.NoError(t, os.Remove(link))
	n.Stop(t)
	before := bustest.Passwords(t, n.Config.DataDir)
	require.NoError(t, restore(file, n.Config.DataDir, true))
	assert.Equal(t, before, bustest.Passwords(t, n.Config.DataDir), "asked for, they are in the backup")
	n.Start(t)
	requireIntact(t, n)

	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, bad := range map[string][]byte{
		"cut":     data[:len(data)/2],
		"no end":  data[:bytes.LastIndex(data, []byte("manifest.json"))],
		"flipped": flipped(data, inLargest(t, data)),
		"another": bytes.Replace(data, []byte(`"max_age": 0`), []byte(`"max_age": 1`), 1),
		"empty":   {},
		"text":    []byte("no backup"),
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		err := restore(path, filepath.Join(dir, "x"), false)
		assert.Equal(t, fault.DataLoss, fault.CodeOf(err), name)
	}
	assert.NoDirExists(t, filepath.Join(dir, "x"))
}

// inLargest is a place in the content of the largest file of a backup: not all bytes between files mean something.
func inLargest(t *testing.T, data []byte) (at int) {
	t.Helper()
	rest, largest := bytes.NewReader(data), int64(0)
	for files := tar.NewReader(rest); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return at
		}
		require.NoError(t, err)
		if h.Size > largest {
			largest, at = h.Size, len(data)-rest.Len()+int(h.Size/2)
		}
	}
}

func flipped(data []byte, at int) []byte {
	data = bytes.Clone(data)
	data[at] ^= 1
	return data
}

// FuzzRestore reads files of any content: invalid backups are refused, and leave no files behind.
func FuzzRestore(f *testing.F) {
	f.Add([]byte("no backup"))
	f.Add(make([]byte, 1024))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		file := filepath.Join(dir, "a")
		require.NoError(t, os.WriteFile(file, data, 0o600))
		_, err := bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: filepath.Join(dir, "data")})
		require.Error(t, err)
		assert.NoDirExists(t, filepath.Join(dir, "data"))
	})
}
