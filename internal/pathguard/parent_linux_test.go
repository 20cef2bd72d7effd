package pathguard_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
)

// A directory that is swapped for a link again and again, while files in it are changed, never leads a change to where
// the link points to, not even inside of the root.
func TestSwappedDirectory(t *testing.T) {
	t.Parallel()
	root, err := pathguard.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	dir, link, other := root.Abs("dir"), root.Abs("link"), root.Abs("other")
	for _, path := range []string{dir, other} {
		require.NoError(t, os.Mkdir(path, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(path, "kept"), []byte("old"), 0o600))
	}
	require.NoError(t, os.Symlink("other", link))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	turned := 0
	for range 3000 {
		_, err := root.WriteAtomic("dir/new", []byte("x"), 0o600)
		if fault.Has(err, fault.Conflict) {
			turned++
		}
		_, _ = root.Append("dir/kept", []byte("x")) // what counts is where it went
	}
	close(stop)
	<-stopped
	assert.Positive(t, turned, "the directory was never swapped in time")
	assert.NoFileExists(t, filepath.Join(other, "new"))
	kept, err := os.ReadFile(filepath.Join(other, "kept"))
	require.NoError(t, err)
	assert.Equal(t, "old", string(kept))
}

// A directory that is replaced by a link to a hidden one after the path was resolved opens nothing there.
func TestLinkToHidden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "auth.json"), []byte("secret"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "own"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "own", "auth.json"), []byte("own"), 0o600))
	root, err := pathguard.Open(dir, data)
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	rel, err := root.Resolve(filepath.Join(dir, "own", "auth.json"))
	require.NoError(t, err)
	content, err := root.ReadFile(rel, 100)
	require.NoError(t, err)
	assert.Equal(t, "own", string(content))

	require.NoError(t, os.Rename(filepath.Join(dir, "own"), filepath.Join(dir, "before")))
	require.NoError(t, os.Symlink("data", filepath.Join(dir, "own")))
	_, err = root.ReadFile(rel, 100)
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err), "%v", err)
	_, err = root.OpenAppend(rel)
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err), "%v", err)
}
