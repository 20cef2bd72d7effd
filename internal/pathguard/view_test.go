package pathguard_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
)

// newView returns a root with secret/key, secret.txt and open/file, and a view of it without secret.
func newView(t *testing.T) (root, view *pathguard.Root) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"secret/key", "secret.txt", "open/file"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	require.NoError(t, os.Symlink("../secret", filepath.Join(dir, "open", "link")))
	root, err := pathguard.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root, root.Without(func(rel string) bool { return rel == "secret" || strings.HasPrefix(rel, "secret/") })
}

func TestViewLacksWhatItHides(t *testing.T) {
	t.Parallel()
	root, view := newView(t)
	for _, path := range []string{"secret", "secret/key", "secret/new", "open/link", "open/link/key", "open/../secret/key"} {
		_, err := view.Resolve(root.Abs(".") + "/" + path)
		assert.Equal(t, fault.NotFound, fault.CodeOf(err), path)
	}
	_, err := root.Resolve(root.Abs("secret/key"))
	require.NoError(t, err, "the root itself has it")
	for name, use := range map[string]func(rel string) error{
		"open":      func(rel string) error { _, err := view.Open(rel); return err },
		"append":    func(rel string) error { _, err := view.OpenAppend(rel); return err },
		"read":      func(rel string) error { _, err := view.ReadFile(rel, 100); return err },
		"add":       func(rel string) error { _, err := view.Append(rel, []byte("x")); return err },
		"write":     func(rel string) error { _, err := view.WriteAtomic(rel, nil, 0o600); return err },
		"create":    func(rel string) error { return view.Create(rel+"2", 0o600, func(io.Writer) error { return nil }) },
		"stat":      func(rel string) error { _, err := view.Stat(rel); return err },
		"lstat":     func(rel string) error { _, err := view.Lstat(rel); return err },
		"list":      func(string) error { _, err := view.ReadDir("secret"); return err },
		"walk":      func(string) error { return view.Walk(t.Context(), "secret", nil) },
		"tree":      func(string) error { _, err := view.Tree(t.Context(), "secret"); return err },
		"mkdir":     func(rel string) error { return view.Mkdir(rel+"2", 0o700) },
		"mkdirs":    func(rel string) error { return view.MkdirAll(rel+"2/x", 0o700) },
		"remove":    view.Remove,
		"removeall": view.RemoveAll,
		"rmfile":    view.RemoveFile,
		"rename":    func(rel string) error { return view.Rename(rel, "stolen") },
		"move":      func(rel string) error { _, err := view.Move(rel, "stolen"); return err },
		"move to":   func(rel string) error { _, err := view.Move("secret.txt", rel); return err },
	} {
		assert.Equal(t, fault.NotFound, fault.CodeOf(use("secret/key")), name)
	}
	data, err := os.ReadFile(root.Abs("secret/key"))
	require.NoError(t, err)
	assert.Equal(t, "secret/key", string(data))
}

func TestViewListsTheRest(t *testing.T) {
	t.Parallel()
	root, view := newView(t)
	var seen []string
	require.NoError(t, view.Walk(t.Context(), ".", func(at string, _ fs.DirEntry) error {
		seen = append(seen, at)
		return nil
	}))
	assert.Equal(t, []string{"open", "open/file", "open/link", "secret.txt"}, seen)
	entries, err := view.ReadDir(".")
	require.NoError(t, err)
	assert.Len(t, entries, 2)
	data, err := view.ReadFile("open/file", 100)
	require.NoError(t, err)
	assert.Equal(t, "open/file", string(data))
	narrower := view.Without(func(rel string) bool { return rel == "open" })
	assert.True(t, narrower.Lacks("secret/key") && narrower.Lacks("open") && !narrower.Lacks("secret.txt"))
	assert.False(t, root.Lacks("secret/key"))
}

// A folder that contains something hidden is neither moved nor deleted: the hidden file would become visible, or be
// lost.
func TestViewTakesNothingHiddenAlong(t *testing.T) {
	t.Parallel()
	root, _ := newView(t)
	view := root.Without(func(rel string) bool { return filepath.Base(rel) == "file" })
	_, err := view.Move("open", "other")
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err))
	_, err = view.Tree(t.Context(), "open")
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err))
	_, err = view.Move("secret", "other")
	require.NoError(t, err)
	assert.FileExists(t, root.Abs("other/key"))
}

// A link that is put there after a path was resolved leads to nothing that is hidden.
func TestViewFollowsNoLinkToWhatItHides(t *testing.T) {
	t.Parallel()
	root, view := newView(t)
	require.NoError(t, os.Mkdir(root.Abs("mine"), 0o700))
	rel, err := view.Resolve(root.Abs("mine/key"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(root.Abs("mine")))
	require.NoError(t, os.Symlink("secret", root.Abs("mine")))
	_, err = view.ReadFile(rel, 100)
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
}
