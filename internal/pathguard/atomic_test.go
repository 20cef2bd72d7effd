package pathguard_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// S4-025: permissions and owner stay, and nothing but the file itself is left.
func TestWriteAtomicKeepsModeAndOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 65534, 65534 // the superuser writes a file of somebody else
	}
	require.NoError(t, os.Chown(w.root+"/file", uid, gid))
	require.NoError(t, os.Chmod(w.root+"/file", 0o767))
	created, err := w.guard.WriteAtomic("file", []byte("new"), 0o600)
	require.NoError(t, err)
	assert.False(t, created)
	info, err := os.Stat(w.root + "/file")
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o767), info.Mode().Perm())
	stat, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	assert.Equal(t, []int{uid, gid}, []int{int(stat.Uid), int(stat.Gid)})
	entries, err := os.ReadDir(w.root)
	require.NoError(t, err)
	assert.Len(t, entries, 2)
	_, err = w.guard.WriteAtomic("absent/file", nil, 0o600)
	refused(t, err, fault.NotFound, "")
}

// S0-037: a reader sees the old content or the new one, never a part.
func TestWriteAtomicIsAtomic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const size, writes = 1 << 16, 50
	_, err := w.guard.WriteAtomic("file", bytes.Repeat([]byte{'0'}, size), 0o600)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reader.Go(func() {
		for ctx.Err() == nil {
			data, err := w.guard.ReadFile("file", size)
			if err != nil || !bytes.Equal(bytes.Repeat(data[:1], size), data) {
				t.Errorf("a mixture of contents, or %v", err)
				return
			}
		}
	})
	for i := range writes {
		_, err := w.guard.WriteAtomic("file", bytes.Repeat([]byte{byte('0' + i%10)}, size), 0o600)
		require.NoError(t, err)
	}
	cancel()
	reader.Wait()
}

// S4-006: while another process swaps a directory for a link to the outside, 10 000 tries to write
// either reach the inside or fail.
func TestRaceCannotEscape(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	var swapper sync.WaitGroup
	swapper.Go(func() {
		dir, aside := filepath.Join(w.root, "dir"), filepath.Join(w.root, "aside")
		for ctx.Err() == nil {
			assert.NoError(t, os.Rename(dir, aside))
			assert.NoError(t, os.Symlink("../outside", dir))
			assert.NoError(t, os.Remove(dir))
			assert.NoError(t, os.Rename(aside, dir))
		}
	})
	defer swapper.Wait()
	defer cancel()
	inside, refusals := 0, 0
	for range 10_000 {
		rel, err := w.guard.Resolve(w.root + "/dir/made")
		if err == nil {
			err = w.guard.Mkdir(rel, 0o755)
		}
		switch fault.CodeOf(err) {
		case "", fault.Conflict:
			inside++
			_ = w.guard.Remove(rel) // may meet the link, too
		case fault.OutsideRoot, fault.NotFound, fault.InvalidFormat: // the last: neither directory nor link for long
			refusals++
		default:
			require.NoError(t, err)
		}
	}
	cancel()
	swapper.Wait()
	assert.Positive(t, inside)
	assert.Positive(t, refusals)
	entries, err := os.ReadDir(w.base + "/outside")
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, "secret", entries[0].Name())
}
