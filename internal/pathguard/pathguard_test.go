package pathguard_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
)

// world is a root next to directories that must not be reached.
type world struct {
	t          *testing.T
	base, root string
	guard      *pathguard.Root
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	w := &world{t: t, base: base, root: filepath.Join(base, "root")}
	for _, dir := range []string{"root/dir/sub", "root-evil", "outside"} {
		require.NoError(t, os.MkdirAll(filepath.Join(base, dir), 0o755))
	}
	for _, file := range []string{"root/file", "root/dir/file", "root-evil/file", "outside/secret"} {
		require.NoError(t, os.WriteFile(filepath.Join(base, file), []byte(file), 0o600))
	}
	w.guard, err = pathguard.Open(w.root)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.guard.Close()) })
	return w
}

// link creates a symbolic link in the root.
func (w *world) link(target, name string) {
	w.t.Helper()
	require.NoError(w.t, os.Symlink(target, filepath.Join(w.root, name)))
}

func refused(t *testing.T, err error, code fault.Code, reason string, about ...any) {
	t.Helper()
	var e *fault.Error
	require.ErrorAs(t, err, &e, about...)
	assert.Equal(t, code, e.Code, about...)
	assert.Equal(t, reason, e.Reason, about...)
}

// S4-005: what stays inside is resolved to its real path.
func TestResolveInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("dir", "rel")
	w.link(filepath.Join(w.root, "dir"), "abs")
	w.link("abs", "chain")
	w.link("../root/dir", "around")
	w.link("dir/new", "dangling")
	w.link("rel/..", "self")
	for path, want := range map[string]string{
		"":                  ".",
		"/":                 ".",
		"/file":             "file",
		"//file":            "file",
		"/./dir/./file":     "dir/file",
		"/dir/../file":      "file",
		"/dir/":             "dir",
		"/rel/file":         "dir/file",
		"/abs/file":         "dir/file",
		"/chain/sub":        "dir/sub",
		"/around/file":      "dir/file",
		"/self/file":        "file",
		"/rel/sub/../file":  "dir/file",
		"/new":              "new",
		"/new/er/file":      "new/er/file",
		"/rel/new":          "dir/new",
		"/dangling":         "dir/new",
		"/dangling/below":   "dir/new/below",
		"/..file":           "..file",
		"/new/../../root/x": "x",
		"/DIR":              "DIR",
	} {
		rel, err := w.guard.Resolve(w.root + path)
		require.NoError(t, err, path)
		assert.Equal(t, want, rel, path)
	}
}

// S4-004: the corpus of escapes.
func TestResolveOutside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("../outside/secret", "file-link")
	w.link("../outside", "dir-link")
	w.link(w.base+"/outside", "abs-link")
	w.link("abs-link", "chain1")
	w.link("chain1", "chain2")
	w.link("../outside/new", "dangling")
	w.link("/", "slash")
	for _, path := range []string{
		w.root + "/..", w.root + "/../outside/secret", w.root + "/dir/../../outside", "/", "/etc/passwd",
		"//etc/passwd", w.root + "-evil/file", w.root + "-evil", w.base, w.root + "/file-link",
		w.root + "/dir-link", w.root + "/dir-link/secret", w.root + "/abs-link/secret", w.root + "/chain2/secret",
		w.root + "/dangling", w.root + "/slash/etc/passwd", w.root + "/dir-link/../root-evil/file",
		w.root + "/new/../../outside", strings.ToUpper(w.root) + "/file", w.root + "/./../outside", "/proc/self/root/etc",
	} {
		_, err := w.guard.Resolve(path)
		refused(t, err, fault.OutsideRoot, "OutsideRoot", path)
	}
}

func TestResolveInvalid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("loop2", "loop1")
	w.link("loop1", "loop2")
	for _, path := range []string{
		"", "file", "./file", "../file", "~/file", "C:\\file", w.root + "/a\x00b", "\x00",
		w.root + "/loop1", w.root + "/loop1/x", w.root + "/" + strings.Repeat("x", 300), w.root + strings.Repeat("/x", 3000),
	} {
		_, err := w.guard.Resolve(path)
		refused(t, err, fault.InvalidFormat, "INVALID_PATH", path)
	}
}

// S4-007: paths in terms of the link work like those in terms of the real directory.
func TestRootMayBeALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alias := filepath.Join(w.base, "alias")
	require.NoError(t, os.Symlink("root", alias))
	guard, err := pathguard.Open(alias)
	require.NoError(t, err)
	defer guard.Close()
	assert.Equal(t, w.root, guard.Name())
	for _, path := range []string{alias + "/dir/file", w.root + "/dir/file"} {
		rel, err := guard.Resolve(path)
		require.NoError(t, err)
		assert.Equal(t, "dir/file", rel)
		assert.Equal(t, w.root+"/dir/file", guard.Abs(rel))
	}
	_, err = pathguard.Open(filepath.Join(w.base, "absent"))
	refused(t, err, fault.NotFound, "")
	_, err = pathguard.Open(filepath.Join(w.root, "file"))
	refused(t, err, fault.InvalidFormat, "INVALID_PATH")
}

func TestResolveEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("../outside/secret", "exit")
	w.link("../outside", "dir-link")
	rel, err := w.guard.ResolveEntry(w.root + "/exit")
	require.NoError(t, err)
	require.NoError(t, w.guard.Remove(rel))
	assert.NoFileExists(t, w.root+"/exit")
	assert.FileExists(t, w.base+"/outside/secret")
	for _, path := range []string{"/dir-link/secret", "/..", "/dir/../../outside"} {
		_, err = w.guard.ResolveEntry(w.root + path)
		refused(t, err, fault.OutsideRoot, "OutsideRoot", path)
	}
}

func TestExistingDir(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link(w.root+"/dir", "link")
	dir, err := w.guard.ExistingDir(w.root + "/link/sub")
	require.NoError(t, err)
	assert.Equal(t, w.root+"/dir/sub", dir)
	_, err = w.guard.ExistingDir(w.root + "/absent")
	refused(t, err, fault.NotFound, "")
	_, err = w.guard.ExistingDir(w.root + "/file")
	refused(t, err, fault.InvalidFormat, "INVALID_PATH")
	_, err = w.guard.ExistingDir(w.base)
	refused(t, err, fault.OutsideRoot, "OutsideRoot")
}

// The operations refuse to leave the root for any path.
func TestOperationsRefuseToLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("../outside", "exit")
	for name, do := range map[string]func(rel string) error{
		"Open":        func(rel string) error { _, err := w.guard.Open(rel); return err },
		"OpenAppend":  func(rel string) error { _, err := w.guard.OpenAppend(rel); return err },
		"ReadFile":    func(rel string) error { _, err := w.guard.ReadFile(rel, 10); return err },
		"WriteAtomic": func(rel string) error { _, err := w.guard.WriteAtomic(rel, nil, 0o644); return err },
		"Stat":        func(rel string) error { _, err := w.guard.Stat(rel); return err },
		"Lstat":       func(rel string) error { _, err := w.guard.Lstat(rel); return err },
		"Mkdir":       func(rel string) error { return w.guard.Mkdir(rel, 0o755) },
		"MkdirAll":    func(rel string) error { return w.guard.MkdirAll(rel+"/x", 0o755) },
		"Remove":      w.guard.Remove,
		"RemoveAll":   w.guard.RemoveAll,
		"Rename from": func(rel string) error { return w.guard.Rename(rel, "x") },
		"Rename to":   func(rel string) error { return w.guard.Rename("file", rel) },
	} {
		for _, rel := range []string{"exit/secret", "../outside/secret"} {
			refused(t, do(rel), fault.OutsideRoot, "OutsideRoot", name)
		}
	}
	data, err := os.ReadFile(w.base + "/outside/secret")
	require.NoError(t, err)
	assert.Equal(t, "outside/secret", string(data))
}

func TestFileOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.guard
	require.NoError(t, g.Mkdir("a", 0o755))
	refused(t, g.Mkdir("a", 0o755), fault.Conflict, "")
	refused(t, g.Mkdir("b/c", 0o755), fault.NotFound, "")
	require.NoError(t, g.MkdirAll("b/c", 0o755))
	created, err := g.WriteAtomic("b/c/f", []byte("12345"), 0o600)
	require.NoError(t, err)
	assert.True(t, created)
	data, err := g.ReadFile("b/c/f", 5)
	require.NoError(t, err)
	assert.Equal(t, "12345", string(data))
	_, err = g.ReadFile("b/c/f", 4)
	refused(t, err, fault.ValidationError, "SIZE_LIMIT_EXCEEDED")
	f, err := g.OpenAppend("b/c/f")
	require.NoError(t, err)
	_, err = io.WriteString(f, "6")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	refused(t, g.Remove("b"), fault.Conflict, "")
	require.NoError(t, g.Rename("b/c/f", "a/f"))
	entries, err := g.ReadDir("a")
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, "f", entries[0].Name())
	require.NoError(t, g.RemoveAll("b"))
	_, err = g.Lstat("b")
	refused(t, err, fault.NotFound, "")
	_, err = g.OpenAppend("b")
	refused(t, err, fault.NotFound, "")
}

// Only regular files are opened, and nothing waits for the other end of a pipe.
func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, syscall.Mkfifo(w.root+"/pipe", 0o600))
	for _, rel := range []string{".", "dir", "pipe", "file/below"} {
		_, err := w.guard.Open(rel)
		refused(t, err, fault.InvalidFormat, "INVALID_PATH", rel)
		_, err = w.guard.WriteAtomic(rel, nil, 0o644)
		refused(t, err, fault.InvalidFormat, "INVALID_PATH", rel)
	}
}

// Links are visited and not followed; the visitor steers.
func TestWalk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("../outside", "exit")
	w.link("dir", "alias")
	walk := func(rel string, stop map[string]error) (visited []string, err error) {
		err = w.guard.Walk(t.Context(), rel, func(at string, _ fs.DirEntry) error {
			visited = append(visited, at)
			return stop[at]
		})
		return visited, err
	}
	visited, err := walk(".", nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"alias", "dir", "dir/file", "dir/sub", "exit", "file"}, visited)
	visited, err = walk("dir", nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"dir/file", "dir/sub"}, visited)
	visited, err = walk(".", map[string]error{"dir": fs.SkipDir, "exit": fs.SkipAll})
	require.NoError(t, err)
	assert.Equal(t, []string{"alias", "dir", "exit"}, visited)
	_, err = walk(".", map[string]error{"dir": fault.New(fault.Gone, "x")})
	refused(t, err, fault.Gone, "")
	_, err = walk("absent", nil)
	refused(t, err, fault.NotFound, "")
	_, err = walk("exit", nil)
	refused(t, err, fault.OutsideRoot, "OutsideRoot")
}
