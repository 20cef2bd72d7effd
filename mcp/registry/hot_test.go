package registry_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/registry"
)

// described waits until the definition of a server has a description.
func (w *world) described(name, description string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		tool, err := w.Get(w.t.Context(), name)
		return err == nil && tool.Config.Description == description && tool.Status == registry.Ready
	}, maxDebounce, 10*time.Millisecond, "%s never became %q", name, description)
}

// forgotten waits until a server is not there.
func (w *world) forgotten(name string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		_, err := w.Get(w.t.Context(), name)
		return err != nil
	}, maxDebounce, 10*time.Millisecond, "%s is still there", name)
}

// says returns a definition with a description.
func says(text string) map[string]any { return map[string]any{"description": text} }

func TestRegistryHotReload(t *testing.T) { // S1-036
	t.Parallel()
	t.Run("edit, replace, delete", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, hot)
		file := w.define("one", "good")
		w.start()
		w.define("one", "good", says("edited"))
		w.described("one", "edited")
		temp := w.put("one.json~", definition(t, "one", "good", says("replaced")))
		require.NoError(t, os.Rename(temp, file))
		w.described("one", "replaced")
		require.NoError(t, os.Rename(file, file+".old")) // like editors that make a backup
		w.define("one", "good", says("written anew"))
		w.described("one", "written anew")
		require.NoError(t, os.Remove(file))
		w.forgotten("one")
	})
	t.Run("directory that appears later", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, hot)
		_, err := w.Init(t.Context())
		require.ErrorIs(t, err, registry.ErrNoConfigDirs)
		w.define("one", "good", says("late"))
		w.described("one", "late")
		require.NoError(t, os.RemoveAll(w.dir()))
		w.forgotten("one")
		w.define("one", "good", says("again"))
		w.described("one", "again")
	})
	t.Run("links", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, hot)
		place, other := t.TempDir(), t.TempDir()
		w.put(filepath.Join(place, "target"), definition(t, "file", "good"))
		require.NoError(t, os.MkdirAll(w.dir(), 0o700))
		require.NoError(t, os.Symlink(filepath.Join(place, "target"), filepath.Join(w.dir(), "file.json")))
		w.put(filepath.Join(other, "v1/dir.json"), definition(t, "dir", "good"))
		require.NoError(t, os.MkdirAll(filepath.Join(w.home, ".orch"), 0o700))
		link := filepath.Join(w.home, ".orch/mcp")
		require.NoError(t, os.Symlink(filepath.Join(other, "v1"), link))
		w.start()
		w.put(filepath.Join(place, "target"), definition(t, "file", "good", says("behind a link")))
		w.described("file", "behind a link")
		w.put(filepath.Join(other, "v2/dir.json"), definition(t, "dir", "good", says("another place")))
		require.NoError(t, os.Symlink(filepath.Join(other, "v2"), link+".new"))
		require.NoError(t, os.Rename(link+".new", link))
		w.described("dir", "another place")
		w.put(filepath.Join(other, "v2/dir.json"), definition(t, "dir", "good", says("in it")))
		w.described("dir", "in it")
	})
	t.Run("state of another process", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, hot)
		w.define("one", "good")
		w.start()
		other := w.another()
		_, err := other.Init(t.Context())
		require.NoError(t, err)
		require.NoError(t, other.Disable(t.Context(), "one"))
		w.become("one", registry.Offline)
		assert.False(t, w.get("one").Enabled)
	})
}
