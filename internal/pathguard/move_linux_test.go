package pathguard_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
)

func (w *world) write(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(filepath.Join(w.root, name)), 0o755))
	require.NoError(w.t, os.WriteFile(filepath.Join(w.root, name), []byte(text), 0o600))
}

func (w *world) read(name string) string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.root, name))
	require.NoError(w.t, err)
	return string(data)
}

// S4-045, A-97.
func TestMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	move := func(from, to string, replaced bool) {
		t.Helper()
		got, err := w.guard.Move(from, to)
		require.NoError(t, err)
		assert.Equal(t, replaced, got)
		_, err = os.Lstat(filepath.Join(w.root, from))
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	w.write("a", "A")
	move("a", "dir/sub/a", false)
	move("dir/sub/a", "file", true)
	assert.Equal(t, "A", w.read("file"))
	move("dir", "moved", false)
	assert.Equal(t, "root/dir/file", w.read("moved/file"))
	require.NoError(t, os.Mkdir(w.root+"/empty", 0o755))
	move("moved", "empty", true)
	assert.Equal(t, "root/dir/file", w.read("empty/file"))
	w.link("../outside", "exit")
	move("exit", "empty/exit", false) // the link itself
	assert.FileExists(t, w.base+"/outside/secret")
	require.NoError(t, os.Link(w.root+"/file", w.root+"/twin"))
	move("twin", "file", true) // two names of one file
	assert.Equal(t, "A", w.read("file"))
}

func TestMoveRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, os.MkdirAll(w.root+"/data/store", 0o755))
	guard, err := pathguard.Open(w.root, w.root+"/data/store")
	require.NoError(t, err)
	defer guard.Close()
	w.write("full/x", "x")
	for _, tc := range []struct {
		from, to string
		code     fault.Code
	}{
		{"absent", "new", fault.NotFound},
		{"file", "absent/new", fault.NotFound},
		{"file", "dir", fault.Conflict},
		{"dir", "file", fault.Conflict},
		{"dir", "full", fault.Conflict},
		{"dir", "dir/sub/x", fault.InvalidFormat},
		{".", "x", fault.ProtectedPath},
		{"file", "file/x", fault.InvalidFormat},
		{"file/x", "y", fault.InvalidFormat},
		{"data", "x", fault.ProtectedPath},
		{"data/store", "x", fault.ProtectedPath},
		{"dir", "data", fault.ProtectedPath},
		{"dir", "data/store", fault.ProtectedPath},
	} {
		_, err := guard.Move(tc.from, tc.to)
		assert.Equal(t, tc.code, fault.CodeOf(err), "%s to %s: %v", tc.from, tc.to, err)
	}
	_, err = w.guard.Move(".", "x")
	refused(t, err, fault.InvalidFormat, "INVALID_PATH")
	assert.Equal(t, "root/file", w.read("file"))
	assert.Equal(t, "root/dir/file", w.read("dir/file"))
	assert.Equal(t, "x", w.read("full/x"))
}

// S4-046: a move to another file system is refused, and nothing happens.
func TestMoveAcrossDevices(t *testing.T) {
	t.Parallel()
	memory, err := os.MkdirTemp("/dev/shm", "orch-test-") //nolint:usetesting // another file system than that of t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(memory)) })
	disk := t.TempDir()
	require.NoError(t, os.WriteFile(memory+"/file", []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(disk+"/old", []byte("old"), 0o600))
	require.NotEqual(t, device(t, memory), device(t, disk))
	guard, err := pathguard.Open("/")
	require.NoError(t, err)
	defer guard.Close()
	require.NoError(t, os.MkdirAll(memory+"/dir/deep", 0o755))
	require.NoError(t, os.Mkdir(disk+"/empty", 0o755))
	_, err = guard.Move(strings.TrimPrefix(memory, "/")+"/dir", strings.TrimPrefix(disk, "/")+"/empty")
	refused(t, err, fault.Conflict, "CROSS_DEVICE")
	assert.DirExists(t, disk+"/empty")
	for _, name := range []string{"new", "old"} {
		_, err = guard.Move(strings.TrimPrefix(memory, "/")+"/file", strings.TrimPrefix(disk, "/")+"/"+name)
		refused(t, err, fault.Conflict, "CROSS_DEVICE")
	}
	assert.FileExists(t, memory+"/file")
	assert.NoFileExists(t, disk+"/new")
	data, err := os.ReadFile(disk + "/old")
	require.NoError(t, err)
	assert.Equal(t, "old", string(data))
}

func device(t *testing.T, path string) uint64 {
	t.Helper()
	var stat syscall.Stat_t
	require.NoError(t, syscall.Stat(path, &stat))
	return stat.Dev
}

func TestRemoveFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("../outside/secret", "exit")
	require.NoError(t, os.Mkdir(w.root+"/empty", 0o755))
	require.NoError(t, w.guard.RemoveFile("exit"))
	require.NoError(t, w.guard.RemoveFile("file"))
	assert.FileExists(t, w.base+"/outside/secret")
	assert.NoFileExists(t, w.root+"/file")
	refused(t, w.guard.RemoveFile("file"), fault.NotFound, "")
	refused(t, w.guard.RemoveFile("empty"), fault.InvalidFormat, "INVALID_PATH")
	assert.DirExists(t, w.root+"/empty")
}

// S4-031: nothing of concurrent writers is lost or torn.
func TestAppendConcurrently(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("log", "")
	const writers, pieces = 8, 50
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for range pieces {
				_, err := w.guard.Append("log", []byte(strings.Repeat(string(rune('a'+i)), 99)+"\n"))
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	counts := map[string]int{}
	for line := range strings.Lines(w.read("log")) {
		counts[line]++
	}
	require.Len(t, counts, writers)
	for line, n := range counts {
		assert.Equal(t, pieces, n)
		assert.Equal(t, strings.Repeat(line[:1], 99)+"\n", line)
	}
	_, err := w.guard.Append("absent", nil)
	refused(t, err, fault.NotFound, "")
	assert.NoFileExists(t, w.root+"/absent")
}
