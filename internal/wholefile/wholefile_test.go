package wholefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/wholefile"
)

func TestReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.json")
	for _, mode := range []fs.FileMode{0o600, 0o640} {
		require.NoError(t, wholefile.Replace(file, []byte(mode.String()), mode))
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, mode.String(), string(content))
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode())
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "b"), 0o700))
	require.Error(t, wholefile.Replace(filepath.Join(dir, "b"), nil, 0o600), "it is a directory")
	require.ErrorIs(t, wholefile.Replace(filepath.Join(dir, "none", "c"), nil, 0o600), fs.ErrNotExist)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 2, "nothing else is left behind")
}

// A reader sees one content or the other, and never a part.
func TestReplaceAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a")
	const size = 64 << 10
	require.NoError(t, wholefile.Replace(file, []byte(strings.Repeat("x", size)), 0o600))
	var group sync.WaitGroup
	for _, letter := range []string{"a", "b", "c"} {
		group.Go(func() {
			for range 10 {
				err := wholefile.Replace(file, []byte(strings.Repeat(letter, size)), 0o600)
				content, unread := os.ReadFile(file)
				if err = errors.Join(err, unread); err != nil {
					t.Error(err)
					return
				}
				assert.Equal(t, strings.Repeat(string(content[:1]), size), string(content))
			}
		})
	}
	group.Wait()
}
