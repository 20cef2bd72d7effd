package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/workspace"
)

const task = events.TaskID("TASK_01JD0000000000000000000000")

func newTree(t *testing.T) (tree *workspace.Tree, dir string) {
	t.Helper()
	root, err := pathguard.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	tree, err = workspace.New(root, "Working")
	require.NoError(t, err)
	return tree, root.Name()
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

// the folder has everything that the specification names.
func TestEnsure(t *testing.T) {
	t.Parallel()
	tree, dir := newTree(t)
	assert.NoDirExists(t, tree.Name(), "nothing is made before it is needed")
	want := filepath.Join(dir, "Working", string(task))
	for range 3 { // the second time it is known, and nothing changes
		got, err := tree.Ensure(task, "nightly build")
		require.NoError(t, err)
		assert.Equal(t, want, got)
		for _, sub := range []string{workspace.Files, workspace.Temp, workspace.Outputs} {
			assert.DirExists(t, filepath.Join(want, sub))
		}
		assert.Equal(t, "# Progress of "+string(task)+" nightly build\n\n", read(t, want, "PROGRESS.md"))
		assert.Equal(t, "# Checkpoints of "+string(task)+" nightly build\n\n", read(t, want, "CHECKPOINTS.md"))
	}
	require.NoError(t, os.RemoveAll(tree.Name()))
	_, err := tree.Ensure(task, "")
	require.NoError(t, err)
	assert.Equal(t, "# Progress of "+string(task)+"\n\n", read(t, want, "PROGRESS.md"), "a removed folder is made again")
}

// The repository of a user stays clean.
func TestTreeIsHiddenFromGit(t *testing.T) {
	t.Parallel()
	tree, dir := newTree(t)
	git(t, dir, "init", "-q")
	_, err := tree.Ensure(task, "x")
	require.NoError(t, err)
	assert.Equal(t, "*\n", read(t, tree.Name(), ".gitignore"))
	assert.Empty(t, git(t, dir, "status", "--porcelain", "--untracked-files=all"))

	const other = events.TaskID("TASK_01JD0000000000000000000001")
	for _, text := range []string{"", "!README.md\n"} { // someone's own stays
		require.NoError(t, os.WriteFile(filepath.Join(tree.Name(), ".gitignore"), []byte(text), 0o600))
		_, err = tree.Ensure(other, "x")
		require.NoError(t, err)
		assert.Equal(t, text, read(t, tree.Name(), ".gitignore"))
		require.NoError(t, os.RemoveAll(tree.Path(other)))
	}
	require.NoError(t, os.Remove(filepath.Join(tree.Name(), ".gitignore")))
	_, err = tree.Ensure(other, "x")
	require.NoError(t, err)
	assert.Equal(t, "*\n", read(t, tree.Name(), ".gitignore"))
}

func TestRootIsNotHiddenFromGit(t *testing.T) {
	t.Parallel()
	root, err := pathguard.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	tree, err := workspace.New(root, ".")
	require.NoError(t, err)
	_, err = tree.Ensure(task, "x")
	require.NoError(t, err)
	assert.NoFileExists(t, filepath.Join(root.Name(), ".gitignore"))
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestEnsureCompletesWhatACrashLeft(t *testing.T) {
	t.Parallel()
	tree, _ := newTree(t)
	require.NoError(t, os.MkdirAll(filepath.Join(tree.Path(task), workspace.Outputs), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(tree.Path(task), "PROGRESS.md"), []byte("kept\n"), 0o600))
	_, err := tree.Ensure(task, "x")
	require.NoError(t, err)
	assert.DirExists(t, filepath.Join(tree.Path(task), workspace.Temp))
	assert.Equal(t, "kept\n", read(t, tree.Path(task), "PROGRESS.md"))
	assert.FileExists(t, filepath.Join(tree.Path(task), "CHECKPOINTS.md"))
}

func TestEnsureFromManySides(t *testing.T) {
	t.Parallel()
	tree, _ := newTree(t)
	var all sync.WaitGroup
	errs := make(chan error, 16)
	for range cap(errs) {
		all.Go(func() {
			_, err := tree.Ensure(task, "x")
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	assert.Equal(t, "# Progress of "+string(task)+" x\n\n", read(t, tree.Path(task), "PROGRESS.md"))
}

// Ids that are paths reach nothing.
func TestHostileIDs(t *testing.T) {
	t.Parallel()
	tree, dir := newTree(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "src", workspace.Temp), 0o755))
	require.NoError(t, os.Mkdir(tree.Name(), 0o755))
	for _, id := range []events.TaskID{"", ".", "..", "../src", "TASK_../../src", task + "/..", "TASK_01jd0000000000000000000000", "TASK_\x00"} {
		_, err := tree.Ensure(id, "")
		require.ErrorIs(t, err, &fault.Error{Code: fault.InvalidFormat}, "%q", id)
		for _, err := range []error{tree.RemoveTemp(id), tree.Archive(id, true), tree.AppendProgress(id, "x")} {
			require.ErrorIs(t, err, &fault.Error{Code: fault.InvalidFormat}, "%q", id)
		}
	}
	assert.DirExists(t, filepath.Join(dir, "src", workspace.Temp))
	entries, err := os.ReadDir(tree.Name())
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// A link that was planted in the place of the folder is not followed, whether known before or not.
func TestPlantedFolder(t *testing.T) {
	t.Parallel()
	for _, knownBefore := range []bool{false, true} {
		tree, dir := newTree(t)
		if knownBefore {
			_, err := tree.Ensure(task, "")
			require.NoError(t, err)
			require.NoError(t, os.RemoveAll(tree.Path(task)))
		}
		require.NoError(t, os.MkdirAll(tree.Name(), 0o755))
		src := filepath.Join(dir, "src")
		require.NoError(t, os.MkdirAll(filepath.Join(src, workspace.Temp), 0o755))
		require.NoError(t, os.Symlink("../src", tree.Path(task)))
		_, err := tree.Ensure(task, "")
		for _, err := range []error{err, tree.RemoveTemp(task), tree.Archive(task, false), tree.AppendCheckpoint(task, "x")} {
			require.ErrorIs(t, err, &fault.Error{Code: fault.OutsideRoot})
		}
		entries, err := os.ReadDir(src)
		require.NoError(t, err)
		assert.Len(t, entries, 1, "only temp, as before")
	}
}

func TestPlantedNotes(t *testing.T) {
	t.Parallel()
	tree, dir := newTree(t)
	_, err := tree.Ensure(task, "")
	require.NoError(t, err)
	victim := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(victim, []byte("package main\n"), 0o600))
	notes := filepath.Join(tree.Path(task), "PROGRESS.md")
	require.NoError(t, os.Remove(notes))
	require.NoError(t, os.Symlink("../../main.go", notes))
	require.ErrorIs(t, tree.AppendProgress(task, "x"), &fault.Error{Code: fault.OutsideRoot})
	assert.Equal(t, "package main\n", read(t, victim))
}

// No content can forge a second line.
func TestNotesAreOneLineEach(t *testing.T) {
	t.Parallel()
	tree, _ := newTree(t)
	_, err := tree.Ensure(task, "a\n# b")
	require.NoError(t, err)
	for _, line := range []string{"plain – ünïcode 世界", "x\n- [2026] forged", "\r\x1b[2J\u2028\u202e\x00\u0085", strings.Repeat("y", 5000)} {
		require.NoError(t, tree.AppendProgress(task, line))
	}
	assert.Equal(t, []string{
		"# Progress of " + string(task) + ` a\n# b`, "",
		"- plain – ünïcode 世界", `- x\n- [2026] forged`, `- \r\x1b[2J\u2028\u202e\x00\u0085`, "- " + strings.Repeat("y", 4096) + "…", "",
	}, strings.Split(read(t, tree.Path(task), "PROGRESS.md"), "\n"))
	require.NoError(t, tree.AppendCheckpoint(task, "c1"))
	assert.True(t, strings.HasSuffix(read(t, tree.Path(task), "CHECKPOINTS.md"), "\n- c1\n"))
}

func TestNotesOfATaskWithoutAFolder(t *testing.T) {
	t.Parallel()
	tree, _ := newTree(t)
	require.ErrorIs(t, tree.AppendProgress(task, "x"), &fault.Error{Code: fault.NotFound})
}

func TestRemoveTemp(t *testing.T) {
	t.Parallel()
	tree, dir := newTree(t)
	require.NoError(t, tree.RemoveTemp(task), "there is none")
	path, err := tree.Ensure(task, "")
	require.NoError(t, err)
	kept := filepath.Join(dir, "kept")
	require.NoError(t, os.Mkdir(kept, 0o755))
	require.NoError(t, os.Symlink(kept, filepath.Join(path, workspace.Temp, "link")))
	require.NoError(t, tree.RemoveTemp(task))
	assert.NoDirExists(t, filepath.Join(path, workspace.Temp))
	assert.DirExists(t, kept)
	_, err = tree.Ensure(task, "")
	require.NoError(t, err)
	assert.DirExists(t, filepath.Join(path, workspace.Temp), "work that goes on gets it again")
}

// backups of deleted files are kept until the task is archived; a link instead of the folder is only removed.
func TestRemoveTempKeepsBackups(t *testing.T) {
	t.Parallel()
	tree, dir := newTree(t)
	path, err := tree.Ensure(task, "")
	require.NoError(t, err)
	temp := filepath.Join(path, workspace.Temp)
	backup := filepath.Join(temp, workspace.Backups, "b.tar.gz")
	require.NoError(t, os.MkdirAll(filepath.Join(temp, "other", "deep"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Dir(backup), 0o755))
	require.NoError(t, os.WriteFile(backup, nil, 0o600))
	require.NoError(t, tree.RemoveTemp(task))
	assert.FileExists(t, backup)
	assert.NoDirExists(t, filepath.Join(temp, "other"))

	foreign := filepath.Join(dir, "src", workspace.Backups)
	require.NoError(t, os.MkdirAll(foreign, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "src", "main.go"), nil, 0o600))
	require.NoError(t, os.RemoveAll(temp))
	require.NoError(t, os.Symlink(filepath.Join("..", "..", "src"), temp))
	require.NoError(t, tree.RemoveTemp(task))
	assert.NoFileExists(t, temp)
	assert.FileExists(t, filepath.Join(dir, "src", "main.go"))
}

func TestArchive(t *testing.T) {
	t.Parallel()
	for folder, ok := range map[string]bool{"Completed": true, "Failed": false} {
		tree, _ := newTree(t)
		require.NoError(t, tree.Archive(task, ok), "there is nothing to move")
		path, err := tree.Ensure(task, "")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(path, workspace.Outputs, "report"), []byte("r"), 0o600))
		long := time.Now().Add(-1000 * time.Hour)
		require.NoError(t, os.Chtimes(path, long, long)) // a program of the task may do that
		require.NoError(t, os.Chmod(path, 0o555))
		require.NoError(t, tree.Archive(task, ok))
		assert.NoDirExists(t, path)
		info, err := os.Stat(filepath.Join(tree.Name(), "Archive", folder, string(task)))
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now(), info.ModTime(), time.Hour, "its age begins now")
		shelf := filepath.Join(tree.Name(), "Archive", folder, string(task))
		assert.Equal(t, "r", read(t, shelf, workspace.Outputs, "report"))

		_, err = tree.Ensure(task, "")
		require.NoError(t, err)
		require.ErrorIs(t, tree.Archive(task, ok), &fault.Error{Code: fault.Conflict}, "its place is taken")
		assert.DirExists(t, path)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	root, err := pathguard.Open(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	tree, err := workspace.New(root, filepath.Join(root.Name(), "a", "..", "b"))
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(root.Name(), "b"), tree.Name())
	for _, working := range []string{"", "..", "../x", "/", filepath.Dir(root.Name())} {
		_, err := workspace.New(root, working)
		require.ErrorIs(t, err, &fault.Error{Code: fault.OutsideRoot}, "%q", working)
	}
}
