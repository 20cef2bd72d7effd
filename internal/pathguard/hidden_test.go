package pathguard_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
)

func TestHiddenDirectoryIsNotThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	require.NoError(t, os.MkdirAll(filepath.Join(data, "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "auth.json"), []byte("{}"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "database"), []byte("x"), 0o600))
	require.NoError(t, os.Symlink(data, filepath.Join(dir, "link")))
	root, err := pathguard.Open(dir, data, filepath.Join(dir, "later"), t.TempDir())
	require.NoError(t, err)
	defer root.Close()

	for _, path := range []string{"data", "data/auth.json", "data/sub/new", "link/auth.json", "later/x"} {
		_, err := root.Resolve(filepath.Join(dir, path))
		assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err), path)
	}
	rel, err := root.Resolve(filepath.Join(dir, "database"))
	require.NoError(t, err)
	assert.Equal(t, "database", rel)

	var seen []string
	require.NoError(t, root.Walk(t.Context(), ".", func(at string, _ fs.DirEntry) error {
		seen = append(seen, at)
		return nil
	}))
	assert.Equal(t, []string{"database", "link"}, seen)
}
