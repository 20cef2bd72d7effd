package undo_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/internal/undo"
)

// place is a root with a store.
type place struct {
	t     *testing.T
	dir   string
	root  *pathguard.Root
	store *undo.Store
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	root, err := pathguard.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, root.Close()) })
	run, err := proc.New(proc.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, run.Close()) })
	require.NoError(t, os.Mkdir(filepath.Join(dir, "Working"), 0o700))
	return &place{t, dir, root, undo.New(root, run, filepath.Join(dir, "Working"), ".undo")}
}

func (p *place) write(name, text string) {
	p.t.Helper()
	require.NoError(p.t, os.MkdirAll(filepath.Dir(filepath.Join(p.dir, name)), 0o755))
	require.NoError(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o640))
}

func (p *place) read(name string) string {
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		return "none"
	}
	return string(data)
}

// call records a change as a call of a session.
func (p *place) call(session, call string, paths []string, change func()) []undo.Changed {
	p.t.Helper()
	c, err := p.store.Begin(p.t.Context(), session, call, paths)
	require.NoError(p.t, err)
	change()
	changed, err := c.End(p.t.Context())
	require.NoError(p.t, err)
	return changed
}

func (p *place) undo(session, task string) undo.Report {
	p.t.Helper()
	r, err := p.store.Undo(p.t.Context(), p.root, undo.Request{Session: session, Task: task, By: "UNDO/" + session})
	require.NoError(p.t, err)
	return r
}

// Changes of programs and tools are undone: contents, new files, removed ones, modes and links; other files do not
// change.
func TestUndoOfASession(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a.txt", "one\r\n")
	p.write(".gitattributes", "* text eol=lf\n")
	p.write("ignored/.env", "KEY=1")
	p.write(".gitignore", "ignored\n")
	p.write("sub/keep.txt", "mine")
	require.NoError(t, os.Symlink("a.txt", filepath.Join(p.dir, "link")))
	changed := p.call("S1", "T1/call", nil, func() {
		p.write("a.txt", "two")
		p.write("new.txt", "x")
		require.NoError(t, os.RemoveAll(filepath.Join(p.dir, "ignored")))
		require.NoError(t, os.Remove(filepath.Join(p.dir, "link")))
		p.write("odd \"name\"\n\tü.txt", "y")
	})
	assert.Len(t, changed, 5)
	assert.Equal(t, []undo.Changed{{"a.txt", "M"}}, p.call("S1", "T2/call", []string{"a.txt"}, func() { p.write("a.txt", "three") }))
	p.write("later.txt", "by somebody else")
	dry, err := p.store.Undo(t.Context(), p.root, undo.Request{Session: "S1", Dry: true})
	require.NoError(t, err)
	assert.Equal(t, "three", p.read("a.txt"))
	r := p.undo("S1", "")
	assert.Equal(t, dry, r)
	assert.ElementsMatch(t, []string{"a.txt", "ignored/.env", "link"}, r.Restored)
	assert.Len(t, r.Removed, 2)
	assert.Empty(t, r.Conflicts)
	assert.Equal(t, "one\r\n", p.read("a.txt"))
	assert.Equal(t, "KEY=1", p.read("ignored/.env"))
	assert.Equal(t, "none", p.read("new.txt"))
	assert.Equal(t, "by somebody else", p.read("later.txt"))
	target, err := os.Readlink(filepath.Join(p.dir, "link"))
	require.NoError(t, err)
	assert.Equal(t, "a.txt", target)
	info, err := os.Stat(filepath.Join(p.dir, "a.txt"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	assert.Equal(t, undo.Report{Restored: []string{}, Removed: []string{}, Conflicts: []string{}}, p.undo("S1", ""), "a second time changes nothing")
}

// Paths that were changed since are not restored, unless forced. One call can be undone if no later one has changed the
// same path.
func TestUndoKeepsWhatOthersHaveChanged(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a.txt", "one")
	p.write("b.txt", "one")
	p.call("S1", "T1/call", []string{"a.txt"}, func() { p.write("a.txt", "two") })
	p.call("S1", "T2/call", []string{"b.txt"}, func() { p.write("b.txt", "two") })
	p.call("S2", "T3/call", []string{"a.txt"}, func() { p.write("a.txt", "three") })
	r := p.undo("S1", "T1")
	assert.Equal(t, []string{"a.txt"}, r.Conflicts)
	assert.Equal(t, "three", p.read("a.txt"))
	assert.Equal(t, "two", p.read("b.txt"))
	forced, err := p.store.Undo(t.Context(), p.root, undo.Request{Session: "S1", Force: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"a.txt", "b.txt"}, forced.Restored)
	assert.Equal(t, "one", p.read("a.txt"))
}

// Concurrent calls record only their own changes: the file of one call is not attributed to a concurrent program.
func TestUndoOfCallsSideBySide(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a.txt", "one")
	p.write("other.txt", "stays")
	edit, err := p.store.Begin(t.Context(), "S1", "T1/call", []string{"a.txt"})
	require.NoError(t, err)
	program, err := p.store.Begin(t.Context(), "S1", "T2/call", nil)
	require.NoError(t, err)
	p.write("a.txt", "two")
	changed, err := edit.End(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []undo.Changed{{"a.txt", "A"}}[0].Path, changed[0].Path)
	assert.Len(t, changed, 1)
	_, err = program.End(t.Context())
	require.NoError(t, err)
	r := p.undo("S1", "T1")
	assert.Empty(t, r.Removed)
	assert.Equal(t, "one", p.read("a.txt"))
	assert.Equal(t, "stays", p.read("other.txt"))
}

// A call that was cut off with the process is undone as well.
func TestUndoOfACallThatWasCutOff(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a.txt", "one")
	p.write("b.txt", "one")
	_, err := p.store.Begin(t.Context(), "S1", "T1/call", nil)
	require.NoError(t, err)
	p.write("a.txt", "two")
	again := undo.New(p.root, p.runner(), filepath.Join(p.dir, "Working"), ".undo")
	r, err := again.Undo(t.Context(), p.root, undo.Request{Session: "S1"})
	require.NoError(t, err)
	assert.Equal(t, []string{"a.txt"}, r.Restored)
	assert.Equal(t, "one", p.read("a.txt"))
}

func (p *place) runner() *proc.Runner {
	run, err := proc.New(proc.Config{})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { assert.NoError(p.t, run.Close()) })
	return run
}

// The repository of the project is not changed, and folders that can be regenerated are not recorded.
func TestUndoLeavesTheRepositoryAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	git := func(args ...string) string {
		out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "git", append([]string{"-C", p.dir, "-c", "user.name=a", "-c", "user.email=a"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	git("init", "-q")
	p.write("a.txt", "one")
	p.write("node_modules/x/index.js", "1")
	git("add", "a.txt")
	git("commit", "-qm", "first")
	p.write("Working/.gitignore", "*")
	before := git("status", "--porcelain=v2", "--branch")
	changed := p.call("S1", "T1/call", nil, func() { p.write("node_modules/x/index.js", "2") })
	assert.Empty(t, changed)
	assert.Equal(t, before, git("status", "--porcelain=v2", "--branch"))
}

// In a root with too many files only the changes of tools that name their files are recorded.
func TestUndoOfALargeRoot(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.store.Max = 10
	for i := range 11 {
		p.write("many/"+strconv.Itoa(i), "")
	}
	_, err := p.store.Begin(t.Context(), "S1", "T1/call", nil)
	require.ErrorIs(t, err, undo.ErrTooLarge)
	p.write("a.txt", "one")
	p.call("S1", "T2/call", []string{"a.txt"}, func() { p.write("a.txt", "two") })
	p.undo("S1", "")
	assert.Equal(t, "one", p.read("a.txt"))
}

// The records of a session are removed with its workspace.
func TestUndoEndsWithTheWorkspace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a.txt", "one")
	for _, session := range []string{"S1", "S2"} {
		p.call(session, "T/call", []string{"a.txt"}, func() { p.write("a.txt", "in "+session) })
	}
	p.store = undo.New(p.root, p.runner(), filepath.Join(p.dir, "Working"), ".undo")
	p.store.Lives = func(session string) bool { return session == "S2" }
	assert.Empty(t, p.undo("S1", "").Restored)
	assert.Equal(t, []string{"a.txt"}, p.undo("S2", "").Restored)
	assert.Equal(t, "in S1", p.read("a.txt"))
}

// Paths that are hidden from the caller are not restored.
func TestUndoLeavesWhatIsHidden(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("secret", "one")
	p.call("S1", "T/call", nil, func() { p.write("secret", "two") })
	hidden := p.root.Without(func(rel string) bool { return rel == "secret" })
	r, err := p.store.Undo(t.Context(), hidden, undo.Request{Session: "S1", Force: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"secret"}, r.Conflicts)
	assert.Equal(t, "two", p.read("secret"))
}

// Changes that a running call makes after an undo can also be undone.
func TestUndoOfACallThatRuns(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a.txt", "one")
	p.write("b.txt", "one")
	c, err := p.store.Begin(t.Context(), "S1", "T1/call", nil)
	require.NoError(t, err)
	p.write("a.txt", "two")
	assert.Equal(t, []string{"a.txt"}, p.undo("S1", "").Restored)
	p.write("b.txt", "two")
	_, err = c.End(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"b.txt"}, p.undo("S1", "").Restored)
	assert.Equal(t, "one", p.read("b.txt"))
}
