package pathguard_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
)

func (w *world) tree(rel string) *pathguard.Tree {
	w.t.Helper()
	tree, err := w.guard.Tree(w.t.Context(), rel)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, tree.Close()) })
	return tree
}

func TestTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("../../outside", "dir/exit")
	require.NoError(t, syscall.Mkfifo(w.root+"/dir/pipe", 0o600))
	tree := w.tree("dir")
	assert.False(t, tree.Empty())
	var out bytes.Buffer
	require.NoError(t, tree.Archive(t.Context(), &out))
	assert.Equal(t, []string{"dir/", "dir/exit -> ../../outside", "dir/file = root/dir/file", "dir/pipe", "dir/sub/"}, listing(t, &out))
	require.NoError(t, tree.Remove(t.Context()))
	assert.NoDirExists(t, w.root+"/dir")
	assert.FileExists(t, w.base+"/outside/secret")
	require.NoError(t, os.Mkdir(w.root+"/empty", 0o755))
	empty := w.tree("empty")
	assert.True(t, empty.Empty())
	require.NoError(t, empty.Remove(t.Context()))
	assert.NoDirExists(t, w.root+"/empty")
}

// listing returns the entries of an archive with their content.
func listing(t *testing.T, r io.Reader) []string {
	t.Helper()
	var names []string
	for in := tar.NewReader(r); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		name := header.Name
		switch header.Typeflag {
		case tar.TypeSymlink:
			name += " -> " + header.Linkname
		case tar.TypeReg:
			data, err := io.ReadAll(in)
			require.NoError(t, err)
			name += " = " + string(data)
		}
		names = append(names, name)
	}
}

func TestTreeRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("dir", "alias")
	w.link("../outside", "exit")
	guard, err := pathguard.Open(w.root, w.root+"/dir/sub")
	require.NoError(t, err)
	defer guard.Close()
	for rel, code := range map[string]fault.Code{
		"dir": fault.ProtectedPath, "dir/sub": fault.ProtectedPath, ".": fault.ProtectedPath, "absent": fault.NotFound,
		"file": fault.InvalidFormat, "alias": fault.InvalidFormat, "exit": fault.InvalidFormat, "exit/x": fault.OutsideRoot,
	} {
		_, err := guard.Tree(t.Context(), rel)
		assert.Equal(t, code, fault.CodeOf(err), "%s: %v", rel, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.guard.Tree(over, "dir")
	require.ErrorIs(t, err, context.Canceled)
	tree := w.tree("dir")
	require.ErrorIs(t, tree.Archive(over, io.Discard), context.Canceled)
	require.ErrorIs(t, tree.Remove(over), context.Canceled)
	assert.FileExists(t, w.root+"/dir/file")
	require.NoError(t, syscall.Mknod(w.root+"/dir/socket", syscall.S_IFSOCK|0o600, 0))
	refused(t, w.tree("dir").Archive(t.Context(), io.Discard), fault.InvalidFormat, "INVALID_PATH")
}

// Entries that have changed since the tree was listed are neither archived nor removed.
func TestTreeChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world) error{
		"content": func(w *world) error { return os.WriteFile(w.root+"/dir/file", []byte("another size"), 0o600) },
		"replaced": func(w *world) error {
			return errors.Join(os.Remove(w.root+"/dir/file"), os.Mkdir(w.root+"/dir/file", 0o755))
		},
		"linked": func(w *world) error {
			return errors.Join(os.Remove(w.root+"/dir/file"), os.Symlink("../file", w.root+"/dir/file"))
		},
		"gone":        func(w *world) error { return os.Remove(w.root + "/dir/file") },
		"permissions": func(w *world) error { return os.Chmod(w.root+"/dir/file", 0o640) },
		"directory": func(w *world) error {
			return errors.Join(os.Remove(w.root+"/dir/sub"), os.Symlink("../../outside", w.root+"/dir/sub"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write("dir/a", "a")
			tree := w.tree("dir")
			require.NoError(t, change(w))
			refused(t, tree.Remove(t.Context()), fault.Conflict, "")
			assert.Equal(t, "a", w.read("dir/a"))
			assert.FileExists(t, w.base+"/outside/secret")
			if name == "content" || name == "linked" || name == "gone" {
				assert.Error(t, tree.Archive(t.Context(), io.Discard))
			}
		})
	}
}

// New files stay, with the directories that contain them.
func TestTreeKeepsWhatIsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tree := w.tree("dir")
	w.write("dir/sub/new", "new")
	refused(t, tree.Remove(t.Context()), fault.Conflict, "")
	assert.Equal(t, "new", w.read("dir/sub/new"))
}

// A directory that was replaced by a link is not followed, although the link stays inside the root.
func TestTreeDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("other/file", "other")
	tree := w.tree("dir")
	require.NoError(t, os.Rename(w.root+"/dir", w.root+"/aside"))
	w.link("other", "dir")
	_ = tree.Remove(t.Context()) // removes what it has seen, wherever that is now
	assert.Equal(t, "other", w.read("other/file"))
}

func TestCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fill := func(text string, err error) func(io.Writer) error {
		return func(out io.Writer) error { return errors.Join(err, second(io.WriteString(out, text))) }
	}
	require.NoError(t, w.guard.Create("dir/new", 0o600, fill("x", nil)))
	assert.Equal(t, "x", w.read("dir/new"))
	refused(t, w.guard.Create("dir/new", 0o600, fill("y", nil)), fault.Conflict, "")
	refused(t, w.guard.Create("absent/new", 0o600, fill("y", nil)), fault.NotFound, "")
	refused(t, w.guard.Create("dir/bad", 0o600, fill("y", fault.New(fault.Gone, "no"))), fault.Gone, "")
	assert.Equal(t, "x", w.read("dir/new"))
	entries, err := os.ReadDir(w.root + "/dir")
	require.NoError(t, err)
	assert.Len(t, entries, 3, "file, sub, new")
}

func second(_ int, err error) error { return err }

func TestEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("dir/sub/x", "x")
	w.link("dir", "alias")
	w.link("../../outside", "dir/exit")
	refused(t, w.guard.Empty("alias"), fault.InvalidFormat, "INVALID_PATH")
	refused(t, w.guard.Empty("absent"), fault.NotFound, "")
	require.NoError(t, w.guard.Empty("dir", "file"))
	entries, err := os.ReadDir(w.root + "/dir")
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, "file", entries[0].Name())
	assert.FileExists(t, w.base+"/outside/secret")
}
