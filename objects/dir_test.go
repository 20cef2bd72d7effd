package objects_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/objects"
	"github.com/orch-dev/orch/objects/objectstest"
)

func open(t *testing.T, dir string) *objects.Dir {
	t.Helper()
	d, err := objects.OpenDir(dir, true)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func TestDir(t *testing.T) {
	t.Parallel()
	objectstest.Test(t, open(t, filepath.Join(t.TempDir(), "new", "dir")))
	_, err := objects.OpenDir(filepath.Join(t.TempDir(), "none"), false)
	require.Equal(t, fault.NotFound, fault.CodeOf(err))
}

// A body that is shorter than it should be leaves no object, and what killed processes have left is removed after a day.
func TestDirHasNoPartsOfObjects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir)
	require.Error(t, d.Put(t.Context(), "a/b", bytes.NewReader([]byte("x")), 2, nil))
	entries, err := os.ReadDir(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.Empty(t, entries)
	old, fresh := filepath.Join(dir, "a", ".part-old"), filepath.Join(dir, "a", ".part-new")
	for _, name := range []string{old, fresh} {
		require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	require.NoError(t, os.Chtimes(old, time.Time{}, time.Now().Add(-48*time.Hour)))
	require.NoError(t, objectstest.Put(t.Context(), d, "a/b", []byte("whole")))
	assert.NoFileExists(t, old)
	assert.FileExists(t, fresh)
	keys, err := objectstest.List(t.Context(), d, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"a/b"}, keys)
	info, err := os.Stat(filepath.Join(dir, "a", "b"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// Links do not lead out of the directory.
func TestDirFollowsNoLinks(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	d := open(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "away")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "file")))
	for _, key := range []string{"away/secret", "file"} {
		_, err := objectstest.Get(t.Context(), d, key, 0, -1)
		require.Equal(t, fault.Forbidden, fault.CodeOf(err), key)
	}
	require.Error(t, objectstest.Put(t.Context(), d, "away/new", nil))
	assert.NoFileExists(t, filepath.Join(outside, "new"))
	keys, err := objectstest.List(t.Context(), d, "")
	require.NoError(t, err)
	assert.Empty(t, keys)
}

func TestDirEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, fault.Cancelled, fault.CodeOf(objectstest.Put(ctx, open(t, t.TempDir()), "a", []byte("x"))))
}
