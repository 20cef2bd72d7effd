package clients_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/clients"
)

func writeStory(file string, story *txtar.Archive) error {
	return os.WriteFile(file, txtar.Format(story), 0o600)
}

func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(content)
}

func TestWriteMakesAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a", "b", "mcp.json")
	content, err := clients.Read(file)
	require.NoError(t, err)
	require.Nil(t, content)
	backup, err := clients.Write(file, nil, []byte("{}\n"), noon())
	require.NoError(t, err)
	assert.Empty(t, backup)
	assert.Equal(t, "{}\n", read(t, file))
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestWriteKeepsWhatWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "dotfiles.json"), filepath.Join(dir, "mcp.json")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o640))
	require.NoError(t, os.Chmod(file, 0o640))
	require.NoError(t, os.Symlink(file, link))
	backup, err := clients.Write(link, []byte("old"), []byte("new"), noon())
	require.NoError(t, err)
	assert.Equal(t, "old", read(t, backup))
	assert.Equal(t, file+".20260102T120000.000Z.bak", backup)
	assert.Equal(t, "new", read(t, file))
	target, err := os.Readlink(link)
	require.NoError(t, err)
	assert.Equal(t, file, target)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, names, 3, "nothing else is left behind")
}

func TestWriteRefusesAFileThatHasChanged(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp.json")
	require.NoError(t, os.WriteFile(file, []byte("theirs"), 0o600))
	for _, before := range [][]byte{nil, []byte("old")} {
		_, err := clients.Write(file, before, []byte("new"), noon())
		require.ErrorIs(t, err, fault.New(fault.Conflict, ""))
		assert.Equal(t, "theirs", read(t, file))
	}
}

func TestReadRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	_, err := clients.Read(t.TempDir())
	require.ErrorIs(t, err, fault.New(fault.ValidationError, ""))
}
