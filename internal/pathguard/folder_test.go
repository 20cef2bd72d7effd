package pathguard_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
)

// folder opens a folder of the root.
func (w *world) folder(rel string) *pathguard.Folder {
	w.t.Helper()
	f, err := w.guard.Folder(rel)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, f.Close()) })
	return f
}

// below opens a path below a folder.
func below(t *testing.T, f *pathguard.Folder, path string) *pathguard.Folder {
	t.Helper()
	in, err := f.Folder(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, in.Close()) })
	return in
}

// put writes a file below the root.
func (w *world) put(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(filepath.Join(w.root, name)), 0o755))
	require.NoError(w.t, os.WriteFile(filepath.Join(w.root, name), []byte(text), 0o600))
}

func TestFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("dir/sub/a/b", "text")
	f := w.folder("dir")
	assert.Equal(t, filepath.Join(w.root, "dir", "sub"), f.Abs("sub"))
	in := below(t, f, "sub/a")
	names, more, err := in.Names(t.Context(), "", 10)
	require.NoError(t, err)
	assert.Equal(t, []string{"b"}, names)
	assert.False(t, more)
	file, info, err := in.Open("b")
	require.NoError(t, err)
	defer file.Close()
	data, err := io.ReadAll(file)
	require.NoError(t, err)
	assert.Equal(t, "text", string(data))
	assert.Equal(t, int64(4), info.Size())
	_, _, err = in.Open("c")
	refused(t, err, fault.NotFound, "")
	assert.Contains(t, err.Error(), "sub/a/c")
	assert.NotContains(t, err.Error(), w.root, "the message names the path in the folder")
	_, err = f.Folder("sub/none/x")
	refused(t, err, fault.NotFound, "")
	_, err = f.Folder("file")
	refused(t, err, fault.InvalidFormat, "INVALID_PATH")
	_, _, err = f.Open("sub")
	refused(t, err, fault.InvalidFormat, "INVALID_PATH")
}

// No link is followed: neither out of the folder, nor inside of it, nor at its top.
func TestFolderFollowsNoLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("dir/sub/real", "text")
	w.link("../../outside", "dir/exit")
	w.link("../../outside/secret", "dir/secret")
	w.link("/etc/passwd", "dir/absolute")
	w.link("sub", "dir/inner")
	w.link("sub/real", "dir/file-inner")
	w.link("dir", "dirlink")
	_, err := w.guard.Folder("dirlink")
	refused(t, err, fault.InvalidFormat, "INVALID_PATH")
	f := w.folder("dir")
	for _, path := range []string{"exit", "inner", "exit/x", "inner/real"} {
		_, err := f.Folder(path)
		refused(t, err, fault.InvalidFormat, "INVALID_PATH", path)
	}
	for _, name := range []string{"exit", "secret", "absolute", "inner", "file-inner"} {
		_, _, err := f.Open(name)
		refused(t, err, fault.InvalidFormat, "INVALID_PATH", name)
		info, err := f.Lstat(name)
		require.NoError(t, err)
		assert.Equal(t, os.ModeSymlink, info.Mode().Type(), name)
	}
	target, err := f.Readlink("absolute")
	require.NoError(t, err)
	assert.Equal(t, "/etc/passwd", target)
	for _, path := range []string{"..", "../dir", "sub/../../.."} { // the callers refuse them before
		_, err := f.Folder(path)
		require.Error(t, err, path)
	}
}

// Special files are listed and never opened: a pipe without a writer would block.
func TestFolderOpensNoSpecialFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, syscall.Mkfifo(w.root+"/dir/pipe", 0o600))
	_, _, err := w.folder("dir").Open("pipe")
	refused(t, err, fault.InvalidFormat, "INVALID_PATH")
}

func TestFolderPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []string
	for i := range 5000 {
		name := fmt.Sprintf("f%04d", i*7919%5000)
		w.put("many/"+name, "")
		all = append(all, name)
	}
	slices.Sort(all)
	f := w.folder("many")
	var got []string
	after, more := "", true
	for more {
		var page []string
		var err error
		page, more, err = f.Names(t.Context(), after, 999)
		require.NoError(t, err)
		require.NotEmpty(t, page)
		got, after = append(got, page...), page[len(page)-1]
	}
	assert.Equal(t, all, got)
	page, more, err := f.Names(t.Context(), "f4999", 10)
	require.NoError(t, err)
	assert.Empty(t, page)
	assert.False(t, more)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = f.Names(ctx, "", 10)
	require.ErrorIs(t, err, context.Canceled)
}

func TestFolderHidesWhatTheRootHides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	guard, err := pathguard.Open(w.root, w.root+"/dir/sub")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, guard.Close()) })
	f, err := guard.Folder("dir")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	names, _, err := f.Names(t.Context(), "", 10)
	require.NoError(t, err)
	assert.Equal(t, []string{"file"}, names)
	_, err = f.Folder("sub")
	refused(t, err, fault.NotFound, "")
}
